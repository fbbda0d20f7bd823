# Two stores, coordinators and agents over the zones of a region, jobs on Spark, alarms. No traffic crosses the internet.
locals {
  dns_name     = "log.${var.dns_zone}"
  metadata_url = module.storage.stores["a"].url
  ca_pem       = var.ca_file == null ? null : file(var.ca_file)
  image        = "${aws_ecr_repository.this.repository_url}:${var.image_tag}"
}

module "storage" {
  source = "../../modules/storage"

  name          = var.name
  region        = var.region
  force_destroy = var.force_destroy

  stores = {
    a = { zone = "one" }
    b = { zone = "two" }
  }
}

module "iam" {
  source = "../../modules/iam"

  name           = var.name
  account_id     = var.account_id
  stores         = module.storage.stores
  metadata_store = "a"

  trusted = {
    coordinator = { services = ["ecs-tasks.amazonaws.com"] }
    agent       = { services = ["ecs-tasks.amazonaws.com"] }
    maintenance = { services = ["emr-serverless.amazonaws.com"] }
    producer    = { arns = var.producer_arns }
    consumer    = { arns = var.consumer_arns }
    operator    = { services = ["ecs-tasks.amazonaws.com"], arns = var.operator_arns }
  }
}

module "network" {
  source = "../../modules/network"

  name               = var.name
  region             = var.region
  availability_zones = var.availability_zones
}

module "observability" {
  source = "../../modules/observability"

  name              = var.name
  region            = var.region
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
  region                           = var.region
  account_id                       = var.account_id
  coordinators                     = var.coordinators
  running                          = var.running
  wait_for_steady_state            = var.wait_for_steady_state
  image                            = local.image
  repository_arns                  = [aws_ecr_repository.this.arn]
  metadata_url                     = local.metadata_url
  dns_name                         = local.dns_name
  hosted_zone                      = { id = aws_route53_zone.this.zone_id }
  vpc_id                           = module.network.vpc_id
  subnet_ids                       = module.network.subnet_ids
  security_group_ids               = [module.network.coordinator_security_group_id]
  load_balancer_security_group_ids = [module.network.load_balancer_security_group_id]
  task_role_arn                    = module.iam.role_arns["coordinator"]
  tls_secret_arn                   = aws_secretsmanager_secret.this["tls"].arn
  access_secret_arn                = aws_secretsmanager_secret.this["access"].arn
  secret_key_arns                  = [aws_kms_key.secrets.arn]
  log_group                        = module.observability.log_groups["coordinators"]

  operator = {
    task_role_arn      = module.iam.role_arns["operator"]
    token_secret_arn   = aws_secretsmanager_secret.this["operator-token"].arn
    security_group_ids = [module.network.client_security_group_id]
    ca_pem             = local.ca_pem
  }
}

module "agents" {
  source = "../../modules/agents"

  name                  = var.name
  region                = var.region
  account_id            = var.account_id
  running               = var.running
  wait_for_steady_state = var.wait_for_steady_state
  stores                = module.storage.stores
  store_ids             = var.agent_stores
  cluster               = module.coordinator.url
  image                 = local.image
  repository_arns       = [aws_ecr_repository.this.arn]
  ecs_cluster_arn       = module.coordinator.ecs_cluster_arn
  subnet_ids            = module.network.subnet_ids
  security_group_ids    = [module.network.client_security_group_id]
  task_role_arn         = module.iam.role_arns["agent"]
  token_secret_arn      = aws_secretsmanager_secret.this["agent-token"].arn
  secret_key_arns       = [aws_kms_key.secrets.arn]
  ca_pem                = local.ca_pem
  log_group             = module.observability.log_groups["agents"]
}

module "spark" {
  source = "../../modules/spark"

  name         = var.name
  region       = var.region
  dist_dir     = var.dist_dir
  cluster      = module.coordinator.url
  metadata_url = local.metadata_url
  job_role     = { arn = module.iam.role_arns["maintenance"], name = module.iam.role_names["maintenance"] }
  token_secret = { arn = aws_secretsmanager_secret.this["job-token"].arn, name = aws_secretsmanager_secret.this["job-token"].name }
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
