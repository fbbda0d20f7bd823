output "url" {
  description = "The address of the cluster for clients, agents and jobs: SPARKLOG_CLUSTER."
  value       = local.url
}

output "load_balancer" {
  description = "The load balancer: its name in DNS and zone for a record of dns_name, and what CloudWatch calls it."
  value = {
    arn        = aws_lb.this.arn
    arn_suffix = aws_lb.this.arn_suffix
    dns_name   = aws_lb.this.dns_name
    zone_id    = aws_lb.this.zone_id
  }
}

output "target_groups" {
  description = "What CloudWatch calls the target group of each coordinator, by its number."
  value       = { for number, group in aws_lb_target_group.this : number => group.arn_suffix }
}

output "ecs_cluster_arn" {
  description = "ARN of the ECS cluster. Agents may run in it, too."
  value       = aws_ecs_cluster.this.arn
}

output "task_definitions" {
  description = "The container definition of each coordinator by its number, as ECS gets it."
  value       = { for number, definition in aws_ecs_task_definition.this : number => jsondecode(definition.container_definitions)[0] }
}

output "task_definition_arns" {
  description = "ARNs of the task definitions by number."
  value       = { for number, definition in aws_ecs_task_definition.this : number => definition.arn }
}

output "service_names" {
  description = "Names of the ECS services by number."
  value       = { for number, service in aws_ecs_service.this : number => service.name }
}

output "execution_role_arn" {
  description = "ARN of the role by which ECS starts coordinators."
  value       = aws_iam_role.execution.arn
}

output "operator_function" {
  description = "A function of the shell that runs a command of sparklog as the operator in the VPC and prints its output: eval \"$(terraform output -raw operator_function)\", then sparklog_inside cluster health. It needs aws and jq. Null without operator."
  value       = local.operator_function

  # The task can start only once its role may read the secrets.
  depends_on = [aws_ecs_task_definition.operator, aws_iam_role_policy.execution]
}
