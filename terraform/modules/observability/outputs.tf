output "log_groups" {
  description = "The log groups by their short names, as the other modules take them."
  value = {
    for group, made in aws_cloudwatch_log_group.this : group => {
      name           = made.name
      arn            = made.arn
      retention_days = made.retention_in_days
      kms_key_arn    = made.kms_key_id
    }
  }
}

output "topic_arn" {
  description = "ARN of the topic that gets the alarms."
  value       = aws_sns_topic.alarms.arn
}

output "alarm_names" {
  description = "Names of the alarms."
  value = sort(concat(
    [for alarm in aws_cloudwatch_metric_alarm.coordinators : alarm.alarm_name],
    [for alarm in aws_cloudwatch_metric_alarm.ratios : alarm.alarm_name],
    [for alarm in aws_cloudwatch_metric_alarm.services : alarm.alarm_name],
  ))
}

output "dashboard_name" {
  description = "Name of the dashboard. Null if there is nothing to show."
  value       = one(aws_cloudwatch_dashboard.this[*].dashboard_name)
}

output "kms_key_arn" {
  description = "ARN of the key that encrypts logs and alarms."
  value       = aws_kms_key.this.arn
}
