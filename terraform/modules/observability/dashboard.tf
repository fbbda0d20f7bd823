# Three charts to a row. A widget that shows each value of a label searches for them, so new stores and jobs come by
# themselves.
locals {
  search = "{${var.emf_namespace},Cluster,%s} MetricName=\"%s\" Cluster=\"${coalesce(var.metadata_url, "-")}\""

  coordinator_charts = var.metadata_url == null ? [] : [
    { title = "Leads, in force", stat = "Maximum", names = ["sparklog_active_controller", "sparklog_coordinator_in_force"] },
    { title = "Partitions in trouble", stat = "Maximum", names = ["sparklog_offline_partitions", "sparklog_under_min_isr_partitions", "sparklog_under_replicated_partitions"] },
    { title = "Commits per minute", stat = "Sum", names = ["sparklog_commits_total", "sparklog_submit_duration_seconds_count", "sparklog_lost_slots_total"] },
    { title = "Waiting commands", stat = "Maximum", names = ["sparklog_queued_commands", "sparklog_queued_commands_limit"] },
    { title = "Refused requests per minute", stat = "Sum", names = ["sparklog_refused_requests_total"] },
    { title = "Event loop lag, seconds", stat = "Maximum", names = ["sparklog_event_loop_lag_seconds"] },
    { title = "ISR changes and elections per minute", stat = "Sum", names = ["sparklog_isr_shrinks_total", "sparklog_isr_expands_total", "sparklog_leader_elections_total"] },
    { title = "Topics, partitions, slices", stat = "Maximum", names = ["sparklog_topics", "sparklog_partitions", "sparklog_slices", "sparklog_retired_objects"] },
    { title = "Log size, bytes", stat = "Maximum", names = ["sparklog_log_size_bytes"] },
    { title = "Appended records per minute", stat = "Sum", names = ["sparklog_appended_records_total"] },
    { title = "Appended bytes per minute", stat = "Sum", names = ["sparklog_appended_bytes_total"] },
    { title = "Oldest unread record of a group, age in seconds", stat = "Maximum", names = ["sparklog_group_lag_seconds"] },
    { title = "Entries since the snapshot", stat = "Minimum", names = ["sparklog_snapshot_lag_entries"] },
    { title = "Agents that are up", stat = "Maximum", names = ["sparklog_connected_agents"] },
  ]

  label_charts = var.metadata_url == null ? [] : [
    { title = "Requests per minute, by status", stat = "Sum", label = "status", name = "sparklog_requests_total" },
    { title = "Stores that answer (1), by store", stat = "Minimum", label = "store", name = "sparklog_store_up" },
    { title = "Stores, by state", stat = "Maximum", label = "state", name = "sparklog_stores" },
    { title = "Lag of each store, records", stat = "Maximum", label = "store", name = "sparklog_store_lag_records" },
    { title = "Lag of the last replica, records", stat = "Maximum", label = "store", name = "sparklog_store_max_lag_records" },
    { title = "Failed partitions of the last run, by job", stat = "Maximum", label = "name", name = "sparklog_job_last_run_failed_partitions" },
    { title = "Duration of the last run, seconds, by job", stat = "Maximum", label = "name", name = "sparklog_job_last_run_duration_seconds" },
  ]

  latency_charts = var.metadata_url == null ? [] : [{
    title = "Mean time to commit a command, seconds"
    metrics = [
      [{ expression = "IF(b > 0, a / b, 0)", label = "seconds", id = "value" }],
      [var.emf_namespace, "sparklog_submit_duration_seconds_sum", "Cluster", var.metadata_url, { id = "a", stat = "Sum", visible = false }],
      [var.emf_namespace, "sparklog_submit_duration_seconds_count", "Cluster", var.metadata_url, { id = "b", stat = "Sum", visible = false }],
    ]
  }]

  service_charts = concat(
    [for queue in var.dead_letter_queue == null ? [] : [var.dead_letter_queue] : {
      title   = "Schedules that could not start their job"
      metrics = [["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", queue.name, { stat = "Maximum" }]]
    }],
    [for rule in aws_cloudwatch_event_rule.failed_runs : {
      title   = "Failed runs on EMR Serverless"
      metrics = [["AWS/Events", "MatchedEvents", "RuleName", rule.name, { stat = "Sum" }]]
    }],
  )

  # As JSON: a list of Terraform has elements of one type only.
  charts = concat(
    [for chart in local.coordinator_charts : jsonencode({
      title   = chart.title
      metrics = [for name in chart.names : [var.emf_namespace, name, "Cluster", var.metadata_url, { stat = chart.stat }]]
    })],
    [for chart in local.label_charts : jsonencode({
      title   = chart.title
      metrics = [[{ expression = "SEARCH('${format(local.search, chart.label, chart.name)}', '${chart.stat}', 60)", label = "" }]]
    })],
    [for chart in local.latency_charts : jsonencode(chart)],
    [for chart in local.service_charts : jsonencode(chart)],
  )
}

resource "aws_cloudwatch_dashboard" "this" {
  count = length(local.charts) == 0 ? 0 : 1

  dashboard_name = var.name

  dashboard_body = jsonencode({
    widgets = [
      for index, chart in local.charts : {
        type   = "metric"
        x      = index % 3 * 8
        y      = floor(index / 3) * 6
        width  = 8
        height = 6
        properties = {
          title   = jsondecode(chart).title
          metrics = jsondecode(chart).metrics
          region  = var.region
          view    = "timeSeries"
          stacked = false
          period  = 60
        }
      }
    ]
  })
}
