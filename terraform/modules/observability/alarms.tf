# Every metric that begins with sparklog_ is one that coordinators print (docs/metrics.md); tests compare them. Each of
# them prints its gauges, so the Maximum holds for the cluster; a counter is what it grew by, so the Sum does.
locals {
  of_cluster = { Cluster = var.metadata_url }

  coordinator_alarms = var.metadata_url == null ? {} : {
    no-coordinator-leads = {
      description = "No coordinator leads, so nothing is committed. Are they running? See their log."
      metric      = "sparklog_active_controller"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "LessThanThreshold"
      threshold   = 1
      minutes     = 3
      missing     = "breaching"
    }
    offline-partitions = {
      description = "Partitions have no leader: nobody can write to them. sparklog replica list --offline"
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
      description = "Partitions have a replica that is not in sync. sparklog replica list --under-replicated; is the agent of each store running?"
      metric      = "sparklog_under_replicated_partitions"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = 0
      minutes     = 10
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
      description = "A replica lacks many records for long. Is the agent of its store able to keep up? sparklog replica list"
      metric      = "sparklog_store_max_lag_records"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = var.max_lag_records
      minutes     = 30
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
      description = "Coordinators answer many requests with 5xx: they have too much to do, or the metadata store does not answer. See their log."
      metric      = "sparklog_requests_total"
      dimensions  = merge(local.of_cluster, { status = "5xx" })
      statistic   = "Sum"
      comparison  = "GreaterThanThreshold"
      threshold   = var.server_errors_per_minute
      minutes     = 5
      missing     = "notBreaching"
    }
    overloaded = {
      description = "The event loop of a coordinator is a second late: it needs more CPU, or fewer writers."
      metric      = "sparklog_event_loop_lag_seconds"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
      threshold   = 1
      minutes     = 5
      missing     = "notBreaching"
    }
    no-snapshot = {
      description = "No snapshot of the metadata chain for long, so opening the cluster is slow. sparklog chain snapshot"
      metric      = "sparklog_snapshot_lag_entries"
      dimensions  = local.of_cluster
      statistic   = "Minimum" # those that stand by hear of no new snapshots
      comparison  = "GreaterThanThreshold"
      threshold   = 10000
      minutes     = 10
      missing     = "notBreaching"
    }
  }

  # Of two metrics: the value is an expression of a and b.
  ratio_alarms = var.metadata_url == null ? {} : {
    slow-commits = {
      description = "A command takes more than five seconds to commit. How long does a put to the metadata store take?"
      expression  = "IF(b > 0, a / b, 0)"
      a           = { metric = "sparklog_submit_duration_seconds_sum", statistic = "Sum" }
      b           = { metric = "sparklog_submit_duration_seconds_count", statistic = "Sum" }
      threshold   = 5
      minutes     = 5
    }
    queue-full = {
      description = "Almost as many commands wait as may (queued.max.requests); further ones are refused. How long does a put to the metadata store take?"
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
        description = "A schedule could not start its job. The message in the queue says why."
        namespace   = "AWS/SQS"
        metric      = "ApproximateNumberOfMessagesVisible"
        dimensions  = { QueueName = var.dead_letter_queue.name }
        minutes     = 1
      }
    },
    { for number, group in var.load_balancer == null ? {} : var.load_balancer.target_groups : "coordinator-${number}-unhealthy" => {
      description = "Coordinator ${number} does not answer the load balancer. The others lead meanwhile; see its log."
      namespace   = "AWS/NetworkELB"
      metric      = "UnHealthyHostCount"
      dimensions  = { LoadBalancer = var.load_balancer.arn_suffix, TargetGroup = group }
      minutes     = 10
    } },
  )

  actions = concat([aws_sns_topic.alarms.arn], var.alarm_actions)
}

resource "aws_cloudwatch_metric_alarm" "coordinators" {
  for_each = local.coordinator_alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
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
  alarm_actions       = local.actions
  ok_actions          = local.actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "ratios" {
  for_each = local.ratio_alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  evaluation_periods  = each.value.minutes
  datapoints_to_alarm = each.value.minutes
  treat_missing_data  = "notBreaching"
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
  for_each = local.service_alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = "Maximum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  period              = 60
  evaluation_periods  = each.value.minutes
  datapoints_to_alarm = each.value.minutes
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.actions
  ok_actions          = local.actions
  tags                = var.tags
}
