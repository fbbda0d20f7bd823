# The smallest: one store, no coordinators, and scheduled jobs on Spark. Every process commits by itself.
module "storage" {
  source = "../../modules/storage"

  name          = var.name
  region        = var.region
  stores        = { a = {} }
  force_destroy = var.force_destroy
}

locals {
  metadata_url = module.storage.stores["a"].url
}

module "iam" {
  source = "../../modules/iam"

  name           = var.name
  account_id     = var.account_id
  stores         = module.storage.stores
  metadata_store = "a"
  embedded       = true

  trusted = {
    maintenance = { services = ["emr-serverless.amazonaws.com"] }
    producer    = { arns = var.client_arns }
    consumer    = { arns = var.client_arns }
    operator    = { arns = var.client_arns }
  }
}

module "observability" {
  source = "../../modules/observability"

  name              = var.name
  region            = var.region
  account_id        = var.account_id
  running           = var.running
  log_groups        = ["jobs"]
  dead_letter_queue = module.schedules.dead_letter_queue
  application       = module.spark.application
  emails            = var.emails
}

module "spark" {
  source = "../../modules/spark"

  name         = var.name
  region       = var.region
  dist_dir     = var.dist_dir
  cluster      = local.metadata_url
  metadata_url = local.metadata_url
  job_role     = { arn = module.iam.role_arns["maintenance"], name = module.iam.role_names["maintenance"] }
  log_group    = module.observability.log_groups["jobs"]
}

module "schedules" {
  source = "../../modules/schedules"

  name            = var.name
  running         = var.running
  application_arn = module.spark.application.arn
  job_role_arn    = module.spark.job_role_arn
  job_runs        = module.spark.job_runs
}
