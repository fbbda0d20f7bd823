# A store in each of two regions under one high watermark: a record counts as written once both have it, if the topic says
# so (replication factor 2, min.insync.replicas=2). Coordinators, agents and jobs run in the region of the metadata, and
# reach the other one through a NAT gateway, as endpoints for S3 reach their own region only.
locals {
  stores       = merge(module.storage.stores, module.second_storage.stores)
  home_region  = var.metadata_store == "a" ? var.region : var.second_region
  metadata_url = local.stores[var.metadata_store].url
  ca_pem       = var.ca_file == null ? null : file(var.ca_file)

  # Processes take the region from their environment, so that of the other store must be named.
  config = <<-TOML
    [storage.a]
    region = "${var.region}"

    [storage.b]
    region = "${var.second_region}"
  TOML
}

module "storage" {
  source = "../../modules/storage"

  providers = { aws = aws.first }

  name   = var.name
  region = var.region
  stores = { a = { zone = var.region } }
}

module "second_storage" {
  source = "../../modules/storage"

  providers = { aws = aws.second }

  name   = var.name
  region = var.second_region
  stores = { b = { zone = var.second_region } }
}

module "iam" {
  source = "../../modules/iam"

  name           = var.name
  account_id     = var.account_id
  stores         = local.stores
  metadata_store = var.metadata_store

  trusted = merge(var.trusted, {
    coordinator = { services = ["ecs-tasks.amazonaws.com"] }
    agent       = { services = ["ecs-tasks.amazonaws.com"] }
    maintenance = { services = ["emr-serverless.amazonaws.com"] }
  })
}

module "network" {
  source = "../../modules/network"

  name               = var.name
  region             = local.home_region
  availability_zones = var.availability_zones
  nat                = true
}

module "observability" {
  source = "../../modules/observability"

  name              = var.name
  region            = local.home_region
  account_id        = var.account_id
  running           = var.running
  metadata_url      = local.metadata_url
  load_balancer     = { arn_suffix = module.coordinator.load_balancer.arn_suffix, target_groups = module.coordinator.target_groups }
  dead_letter_queue = module.schedules.dead_letter_queue
  application       = module.spark.application
  emails            = var.emails
}

module "coordinator" {
  source = "../../modules/coordinator"

  name                             = var.name
  region                           = local.home_region
  account_id                       = var.account_id
  running                          = var.running
  image                            = var.image
  repository_arns                  = var.repository_arns
  metadata_url                     = local.metadata_url
  config                           = local.config
  dns_name                         = var.dns_name
  hosted_zone                      = var.hosted_zone
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

module "agents" {
  source = "../../modules/agents"

  name               = var.name
  region             = local.home_region
  account_id         = var.account_id
  running            = var.running
  stores             = local.stores
  store_ids          = var.agent_stores
  cluster            = module.coordinator.url
  config             = local.config
  image              = var.image
  repository_arns    = var.repository_arns
  ecs_cluster_arn    = module.coordinator.ecs_cluster_arn
  subnet_ids         = module.network.subnet_ids
  security_group_ids = [module.network.client_security_group_id]
  task_role_arn      = module.iam.role_arns["agent"]
  token_secret_arn   = var.token_secret.arn
  ca_pem             = local.ca_pem
  secret_key_arns    = var.secret_key_arns
  log_group          = module.observability.log_groups["agents"]
}

module "spark" {
  source = "../../modules/spark"

  name         = var.name
  region       = local.home_region
  dist_dir     = var.dist_dir
  cluster      = module.coordinator.url
  metadata_url = local.metadata_url
  config       = local.config
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
