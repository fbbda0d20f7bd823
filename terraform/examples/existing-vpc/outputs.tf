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
  description = "Sets the cluster up. Run it once, with the role operator."
  value       = "sparklog cluster init --cluster ${local.metadata_url} ${module.storage.init_stores}"
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

output "role_arns" {
  description = "ARNs of the roles."
  value       = module.iam.role_arns
}

output "client_security_group_id" {
  description = "Security group of further clients."
  value       = module.network.client_security_group_id
}

output "policy_json" {
  description = "The policy of each role as JSON, for your own roles: a job that reads one topic and writes another takes those of consumer and producer."
  value       = module.iam.policy_json
}
