output "task_definitions" {
  description = "The container definition of each agent by store id, as ECS gets it."
  value       = { for store, definition in aws_ecs_task_definition.this : store => jsondecode(definition.container_definitions)[0] }
}

output "task_definition_arns" {
  description = "ARNs of the task definitions by store id."
  value       = { for store, definition in aws_ecs_task_definition.this : store => definition.arn }
}

output "service_names" {
  description = "Names of the ECS services by store id."
  value       = { for store, service in aws_ecs_service.this : store => service.name }
}

output "execution_role_arn" {
  description = "ARN of the role by which ECS starts agents."
  value       = aws_iam_role.execution.arn
}
