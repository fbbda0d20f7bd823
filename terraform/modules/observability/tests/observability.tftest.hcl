mock_provider "aws" {
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:123456789012:key/mock" }
  }

  mock_resource "aws_cloudwatch_event_rule" {
    defaults = { arn = "arn:aws:events:eu-central-1:123456789012:rule/acme-failed-runs" }
  }

  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-central-1:123456789012:acme-alarms" }
  }
}

variables {
  name              = "acme"
  region            = "eu-central-1"
  account_id        = "123456789012"
  metadata_url      = "s3://acme-a-eu-central-1/log"
  load_balancer     = { arn_suffix = "net/acme/0123", target_groups = { "0" = "targetgroup/acme-0/0123", "1" = "targetgroup/acme-1/0123" } }
  dead_letter_queue = { name = "acme-schedule-dead-letters" }
  application       = { id = "00f1mock" }
  emails            = ["oncall@example.org"]
}

run "it_rings_when_something_is_wrong" {
  command = apply

  assert {
    condition = output.alarm_names == tolist([
      "acme-coordinator-0-unhealthy",
      "acme-coordinator-1-unhealthy",
      "acme-dead-letters",
      "acme-dead-stores",
      "acme-failed-jobs",
      "acme-group-lag",
      "acme-lag",
      "acme-lost-stores",
      "acme-no-coordinator-leads",
      "acme-no-snapshot",
      "acme-offline-partitions",
      "acme-overloaded",
      "acme-queue-full",
      "acme-server-errors",
      "acme-slow-commits",
      "acme-under-min-isr",
      "acme-under-replicated",
    ])
    error_message = "There is an alarm for each trouble."
  }

  assert {
    condition     = alltrue([for alarm in concat(values(aws_cloudwatch_metric_alarm.coordinators), values(aws_cloudwatch_metric_alarm.ratios), values(aws_cloudwatch_metric_alarm.services)) : contains(alarm.alarm_actions, aws_sns_topic.alarms.arn)])
    error_message = "Every alarm goes to the topic."
  }

  assert {
    condition     = alltrue([for alarm in values(aws_cloudwatch_metric_alarm.coordinators) : alarm.dimensions["Cluster"] == var.metadata_url && alarm.namespace == "sparklog"])
    error_message = "Alarms look at the metrics of this cluster."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.coordinators["no-coordinator-leads"].treat_missing_data == "breaching"
    error_message = "Silence of all coordinators is an alarm."
  }

  assert {
    condition     = jsondecode(aws_cloudwatch_event_rule.failed_runs[0].event_pattern).detail == { applicationId = ["00f1mock"], state = ["CANCELLED", "FAILED"] }
    error_message = "A run on EMR Serverless that failed, or took too long and was cancelled, is told."
  }

  assert {
    condition = alltrue([
      for part in ["get-job-run --region eu-central-1 --application-id <application> --job-run-id <run>", "docs/deploy.md, At night"] :
      strcontains(jsondecode(one(aws_cloudwatch_event_target.failed_runs[0].input_transformer).input_template), part)
    ])
    error_message = "The mail about a failed run is a sentence with the command that shows the reason."
  }

  assert {
    condition = alltrue([
      for alarm in concat(values(aws_cloudwatch_metric_alarm.coordinators), values(aws_cloudwatch_metric_alarm.ratios), values(aws_cloudwatch_metric_alarm.services)) :
      alarm.actions_enabled && endswith(alarm.alarm_description, " docs/deploy.md, At night") && length(alarm.alarm_description) <= 1024
    ])
    error_message = "Every alarm has its actions enabled, and names the runbook."
  }
}

run "a_failed_run_reaches_the_encrypted_topic" {
  command = apply

  assert {
    condition     = one([for statement in jsondecode(aws_kms_key.this.policy).Statement : statement.Condition if statement.Sid == "Events"]) == { StringEquals = { "kms:EncryptionContext:aws:sns:topicArn" = aws_sns_topic.alarms.arn } }
    error_message = "EventBridge uses the key for this topic. KMS knows neither its account nor its rule."
  }

  assert {
    condition     = one([for statement in jsondecode(aws_sns_topic_policy.alarms.policy).Statement : statement.Condition if statement.Sid == "Events"]) == { ArnEquals = { "aws:SourceArn" = aws_cloudwatch_event_rule.failed_runs[0].arn } }
    error_message = "EventBridge sends mails by this rule only."
  }
}

run "alarms_are_silent_while_nothing_runs" {
  command = plan

  variables {
    running = false
  }

  assert {
    condition     = alltrue([for alarm in concat(values(aws_cloudwatch_metric_alarm.coordinators), values(aws_cloudwatch_metric_alarm.ratios), values(aws_cloudwatch_metric_alarm.services)) : !alarm.actions_enabled])
    error_message = "No alarm acts before there is a cluster."
  }
}

run "logs_are_kept_and_encrypted" {
  command = apply

  assert {
    condition     = alltrue([for group in values(aws_cloudwatch_log_group.this) : group.retention_in_days == 365 && group.kms_key_id == aws_kms_key.this.arn])
    error_message = "Logs are encrypted, and kept for a year."
  }

  assert {
    condition     = output.log_groups["coordinators"].retention_days == 365 && output.log_groups["coordinators"].kms_key_arn == aws_kms_key.this.arn
    error_message = "The module coordinator learns how its own log group is kept."
  }

  assert {
    condition     = output.log_groups["coordinators"].name == "/sparklog/acme/coordinators" && aws_sns_topic.alarms.kms_master_key_id == aws_kms_key.this.arn
    error_message = "Log groups are named by cluster and part, and the topic is encrypted."
  }
}

run "without_coordinators_there_are_only_logs" {
  command = apply

  variables {
    metadata_url      = null
    load_balancer     = null
    dead_letter_queue = null
    application       = null
    emails            = []
    log_groups        = ["jobs"]
  }

  assert {
    condition     = length(output.alarm_names) == 0 && output.dashboard_name == null && keys(output.log_groups) == ["jobs"]
    error_message = "Nothing is watched that is not there."
  }
}

run "any_number_of_days_is_refused" {
  command = plan

  variables {
    retention_days = 100
  }

  expect_failures = [var.retention_days]
}
