output "schedule_arns" {
  description = "ARNs of the schedules by job."
  value       = { for name, schedule in aws_scheduler_schedule.this : name => schedule.arn }
}

output "group" {
  description = "Name of the group of the schedules."
  value       = aws_scheduler_schedule_group.this.name
}

output "dead_letter_queue" {
  description = "The queue of starts that failed for retry_seconds."
  value = {
    arn  = aws_sqs_queue.dead_letters.arn
    name = aws_sqs_queue.dead_letters.name
    url  = aws_sqs_queue.dead_letters.id
  }
}

output "role_arn" {
  description = "ARN of the role by which EventBridge starts jobs."
  value       = aws_iam_role.this.arn
}
