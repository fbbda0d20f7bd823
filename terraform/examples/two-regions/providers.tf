provider "aws" {
  region = local.home_region

  default_tags {
    tags = { project = "sparklog", cluster = var.name }
  }
}

provider "aws" {
  alias  = "first"
  region = var.region

  default_tags {
    tags = { project = "sparklog", cluster = var.name }
  }
}

provider "aws" {
  alias  = "second"
  region = var.second_region

  default_tags {
    tags = { project = "sparklog", cluster = var.name }
  }
}
