# Coordinators print every metric that begins with sparklog_ (docs/metrics.md); tests compare them. Each coordinator prints
# its gauges, so take their maximum; a counter is printed as its growth, so take the sum.
locals {
  of_cluster = { Cluster = var.metadata_url }
  runbook    = "docs/deploy.md, At night"
  logs       = "aws logs tail /sparklog/${var.name}/coordinators --since 1h"

  coordinator_alarms = var.metadata_url == null ? {} : {
    no-coordinator-leads = {
      description = "No coordinator leads, so nothing is committed. Do they run? ${local.logs}"
      metric      = "sparklog_active_controller"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "LessThanThreshold"
      threshold   = 1
      minutes     = 3
      missing     = "breaching"
    }
    offline-partitions = {
      description = "Partitions have no leader: writes to them fail. sparklog replica list --offline"
      metric      = "sparklog_offline_partitions"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = 0
      minutes     = 2
      missing     = "notBreaching"
    }
    under-min-isr = {
      description = "Partitions have fewer replicas in sync than min.insync.replicas: writes with acks=all fail. sparklog replica list --under-replicated"
      metric      = "sparklog_under_min_isr_partitions"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = 0
      minutes     = 3
      missing     = "notBreaching"
    }
    under-replicated = {
      description = "Partitions have a replica that is not in sync. sparklog replica list --under-replicated; does the agent of each store run?"
      metric      = "sparklog_under_replicated_partitions"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = 0
      minutes     = 10
      missing     = "notBreaching"
    }
    lost-stores = {
      description = "A store does not answer, or is not the one that was registered. sparklog cluster health; docs/replication.md, At night"
      metric      = "sparklog_store_up"
      dimensions  = local.of_cluster
      statistic   = "Minimum"
      comparison  = "LessThanThreshold"
      threshold   = 1
      minutes     = 2
      missing     = "notBreaching"
    }
    dead-stores = {
      description = "The agents of stores are down. sparklog store list"
      metric      = "sparklog_stores"
      dimensions  = merge(local.of_cluster, { state = "dead" })
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = 0
      minutes     = 5
      missing     = "notBreaching"
    }
    lag = {
      description = "A replica has lacked more than ${var.max_lag_records} records for half an hour: the agent of its store is too slow. sparklog replica list"
      metric      = "sparklog_store_max_lag_records"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = var.max_lag_records
      minutes     = 30
      missing     = "notBreaching"
    }
    group-lag = {
      description = "A consumer group has not read records that were appended an hour ago. sparklog group list names it; sparklog group describe GROUP; does its reader run? If the group is no longer needed, sparklog group delete GROUP"
      metric      = "sparklog_group_lag_seconds"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = 3600
      minutes     = 15
      missing     = "notBreaching"
    }
    failed-jobs = {
      description = "The last run of a job failed in part. sparklog job status"
      metric      = "sparklog_job_last_run_failed_partitions"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = 0
      minutes     = 1
      missing     = "notBreaching"
    }
    server-errors = {
      description = "Coordinators answer many requests with 5xx: they have too much to do, or the metadata store does not answer. ${local.logs}"
      metric      = "sparklog_requests_total"
      dimensions  = merge(local.of_cluster, { status = "5xx" })
      statistic   = "Sum"
      comparison  = "GreaterThanThreshold"
      threshold   = var.server_errors_per_minute
      minutes     = 5
      missing     = "notBreaching"
    }
    overloaded = {
      description = "The event loop of a coordinator is more than a second late: it needs more CPU, or fewer writers."
      metric      = "sparklog_event_loop_lag_seconds"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = 1
      minutes     = 5
      missing     = "notBreaching"
    }
    no-snapshot = {
      description = "The metadata chain has more than 10,000 entries since its last snapshot, so opening the cluster is slow. sparklog chain snapshot"
      metric      = "sparklog_snapshot_lag_entries"
      dimensions  = local.of_cluster
      statistic   = "Minimum" # a standby does not learn of new snapshots
      comparison  = "GreaterThanThreshold"
      threshold   = 10000
      minutes     = 10
      missing     = "notBreaching"
    }
  }

  # Alarms on two metrics: the value is an expression of a and b.
  ratio_alarms = var.metadata_url == null ? {} : {
    slow-commits = {
      description = "A command takes more than five seconds to commit: the metadata store is slow, or the coordinators are. Compare the charts \"Event loop lag, seconds\" and \"Waiting commands\" of the dashboard."
      expression  = "IF(b > 0, a / b, 0)"
      a           = { metric = "sparklog_submit_duration_seconds_sum", statistic = "Sum" }
      b           = { metric = "sparklog_submit_duration_seconds_count", statistic = "Sum" }
      threshold   = 5
      minutes     = 5
    }
    queue-full = {
      description = "The queue of commands is almost full (queued.max.requests); further commands are refused. See the chart \"Mean time to commit a command, seconds\" of the dashboard."
      expression  = "a / b"
      a           = { metric = "sparklog_queued_commands", statistic = "Maximum" }
      b           = { metric = "sparklog_queued_commands_limit", statistic = "Maximum" }
      threshold   = 0.9
      minutes     = 2
    }
  }

  # Metrics of AWS itself.
  service_alarms = merge(
    var.dead_letter_queue == null ? {} : {
      dead-letters = {
        description = "A schedule could not start its job. The message in the queue says why: aws sqs receive-message. The alarm ends when the queue is purged."
        namespace   = "AWS/SQS"
        metric      = "ApproximateNumberOfMessagesVisible"
        dimensions  = { QueueName = var.dead_letter_queue.name }
        comparison  = "GreaterThanThreshold"
        threshold   = 0
        minutes     = 1
        missing     = "notBreaching"
      }
    },
    { for number, group in var.load_balancer == null ? {} : var.load_balancer.target_groups : "coordinator-${number}-unhealthy" => {
      description = "Coordinator ${number} does not answer the load balancer. Another one leads meanwhile. ${local.logs} --log-stream-name-prefix ${number}/"
      namespace   = "AWS/NetworkELB"
      metric      = "HealthyHostCount" # missing while there is no task; the other count would be 0 or missing then
      dimensions  = { LoadBalancer = var.load_balancer.arn_suffix, TargetGroup = group }
      comparison  = "LessThanThreshold"
      threshold   = 1
      minutes     = 10
      missing     = "breaching"
    } },
  )

  actions = concat([aws_sns_topic.alarms.arn], var.alarm_actions)
}

resource "aws_cloudwatch_metric_alarm" "coordinators" {
  #checkov:skip=CKV_AWS_319:actions are off only while nothing runs (running = false)
  for_each = local.coordinator_alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "${each.value.description} ${local.runbook}"
  namespace           = var.emf_namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = each.value.statistic
  comparison_operator = each.value.comparison
  threshold           = each.value.threshold
  period              = 60
  evaluation_periods  = each.value.minutes
  datapoints_to_alarm = each.value.minutes
  treat_missing_data  = each.value.missing
  actions_enabled     = var.running
  alarm_actions       = local.actions
  ok_actions          = local.actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "ratios" {
  #checkov:skip=CKV_AWS_319:actions are off only while nothing runs (running = false)
  for_each = local.ratio_alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "${each.value.description} ${local.runbook}"
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  evaluation_periods  = each.value.minutes
  datapoints_to_alarm = each.value.minutes
  treat_missing_data  = "notBreaching"
  actions_enabled     = var.running
  alarm_actions       = local.actions
  ok_actions          = local.actions
  tags                = var.tags

  metric_query {
    id          = "value"
    expression  = each.value.expression
    label       = each.key
    return_data = true
  }

  dynamic "metric_query" {
    for_each = { a = each.value.a, b = each.value.b }

    content {
      id = metric_query.key

      metric {
        namespace   = var.emf_namespace
        metric_name = metric_query.value.metric
        dimensions  = local.of_cluster
        period      = 60
        stat        = metric_query.value.statistic
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "services" {
  #checkov:skip=CKV_AWS_319:actions are off only while nothing runs (running = false)
  for_each = local.service_alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "${each.value.description} ${local.runbook}"
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = "Maximum" # of the zones of the load balancer, too
  comparison_operator = each.value.comparison
  threshold           = each.value.threshold
  period              = 60
  evaluation_periods  = each.value.minutes
  datapoints_to_alarm = each.value.minutes
  treat_missing_data  = each.value.missing
  actions_enabled     = var.running
  alarm_actions       = local.actions
  ok_actions          = local.actions
  tags                = var.tags
}
