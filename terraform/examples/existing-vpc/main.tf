# One store, and coordinators in an existing VPC, which has its endpoints or a NAT gateway. DNS zone and secrets exist, too.
locals {
  metadata_url = module.storage.stores["a"].url
  ca_pem       = var.ca_file == null ? null : file(var.ca_file)
}

module "storage" {
  source = "../../modules/storage"

  name   = var.name
  region = var.region
  stores = { a = {} }
}

module "iam" {
  source = "../../modules/iam"

  name           = var.name
  account_id     = var.account_id
  stores         = module.storage.stores
  metadata_store = "a"

  trusted = merge(var.trusted, {
    coordinator = { services = ["ecs-tasks.amazonaws.com"] }
    maintenance = { services = ["emr-serverless.amazonaws.com"] }
  })
}

module "network" {
  source = "../../modules/network"

  name                = var.name
  region              = var.region
  vpc_id              = var.vpc_id
  subnet_ids          = var.subnet_ids
  s3_endpoint         = false
  s3_prefix_list_id   = var.s3_prefix_list_id
  interface_endpoints = []
  https_cidrs         = var.endpoint_cidrs
}

module "observability" {
  source = "../../modules/observability"

  name              = var.name
  region            = var.region
  account_id        = var.account_id
  running           = var.running
  log_groups        = ["coordinators", "jobs"]
  metadata_url      = local.metadata_url
  load_balancer     = { arn_suffix = module.coordinator.load_balancer.arn_suffix, target_groups = module.coordinator.target_groups }
  dead_letter_queue = module.schedules.dead_letter_queue
  application       = module.spark.application
  emails            = var.emails
}

module "coordinator" {
  source = "../../modules/coordinator"

  name                             = var.name
  region                           = var.region
  account_id                       = var.account_id
  running                          = var.running
  image                            = var.image
  repository_arns                  = var.repository_arns
  metadata_url                     = local.metadata_url
  dns_name                         = var.dns_name
  hosted_zone                      = { id = var.hosted_zone_id }
  vpc_id                           = module.network.vpc_id
  subnet_ids                       = module.network.subnet_ids
  security_group_ids               = [module.network.coordinator_security_group_id]
  load_balancer_security_group_ids = [module.network.load_balancer_security_group_id]
  task_role_arn                    = module.iam.role_arns["coordinator"]
  tls_secret_arn                   = var.tls_secret_arn
  access_secret_arn                = var.access_secret_arn
  secret_key_arns                  = var.secret_key_arns
  log_group                        = module.observability.log_groups["coordinators"]
}

module "spark" {
  source = "../../modules/spark"

  name         = var.name
  region       = var.region
  dist_dir     = var.dist_dir
  cluster      = module.coordinator.url
  metadata_url = local.metadata_url
  job_role     = { arn = module.iam.role_arns["maintenance"], name = module.iam.role_names["maintenance"] }
  token_secret = var.token_secret
  ca_pem       = local.ca_pem
  network      = { subnet_ids = module.network.subnet_ids, security_group_ids = [module.network.client_security_group_id] }
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
