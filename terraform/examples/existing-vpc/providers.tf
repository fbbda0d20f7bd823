provider "aws" {
  region = var.region

  default_tags {
    tags = { project = "sparklog", cluster = var.name }
  }
}
