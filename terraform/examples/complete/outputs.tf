output "sparklog_cluster" {
  description = "SPARKLOG_CLUSTER for producers, consumers and jobs, with SPARKLOG_TOKEN."
  value       = module.coordinator.url
}

output "metadata_url" {
  description = "Address of the metadata chain: SPARKLOG_CLUSTER of operators."
  value       = local.metadata_url
}

output "sparklog_conf" {
  description = "A config file: terraform output -raw sparklog_conf > sparklog.toml, then export SPARKLOG_CONFIG=$PWD/sparklog.toml."
  value       = <<-TOML
    cluster = "${module.coordinator.url}"

    [storage.metadata]
    region = "${var.region}"
    %{for id, store in module.storage.stores~}

    [storage.${id}]
    region = "${store.region}"
    %{endfor~}
  TOML
}

output "init_command" {
  description = "Sets the cluster up. Run it once, with the role operator. With min.insync.replicas=2, each acknowledged write and a copy of the metadata are on both stores."
  value       = "sparklog cluster init --cluster ${local.metadata_url} ${module.storage.init_stores} --cluster-config min.insync.replicas=2"
}

output "operator_function" {
  description = "A function of the shell that runs a command of sparklog as the operator in the VPC and prints its output: eval \"$(terraform output -raw operator_function)\", then sparklog_inside cluster health. It needs aws and jq."
  value       = module.coordinator.operator_function
}

output "image" {
  description = "The image that coordinators and agents run: build and push it under this name."
  value       = local.image
}

output "secret_arns" {
  description = "ARNs of the secrets that need values: tls, access, agent-token, job-token, operator-token."
  value       = { for name, secret in aws_secretsmanager_secret.this : name => secret.arn }
}

output "job_runs" {
  description = "The input of StartJobRun for each job."
  value       = module.spark.job_runs
}

output "start_commands" {
  description = "The command of the AWS CLI that starts each job now."
  value       = module.spark.start_commands
}

output "coordinator_task_definitions" {
  description = "The container definition of each coordinator by its number."
  value       = module.coordinator.task_definitions
}

output "agent_task_definitions" {
  description = "The container definition of each agent by store id."
  value       = module.agents.task_definitions
}

output "role_arns" {
  description = "ARNs of the roles."
  value       = module.iam.role_arns
}

output "network" {
  description = "Network of your own producers and consumers: the VPC, its subnets, and the security group of clients."
  value = {
    vpc_id                   = module.network.vpc_id
    subnet_ids               = module.network.subnet_ids
    client_security_group_id = module.network.client_security_group_id
  }
}

output "policy_json" {
  description = "The policy of each role as JSON, for your own roles: a job that reads one topic and writes another takes those of consumer and producer."
  value       = module.iam.policy_json
}
