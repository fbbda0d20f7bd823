# EventBridge delivers at least once, so a job may start twice. That does no harm: a job changes the log only by commands,
# which the metadata chain accepts or refuses as a whole, and accepts only if the objects that the job read are still there.
resource "aws_scheduler_schedule_group" "this" {
  name = var.name
  tags = var.tags
}

resource "aws_scheduler_schedule" "this" {
  #checkov:skip=CKV_AWS_297:a schedule holds no secret, only the name of one
  for_each = var.schedules

  name                         = each.key
  group_name                   = aws_scheduler_schedule_group.this.name
  description                  = "sparklog: starts the job ${each.key}"
  schedule_expression          = each.value.expression
  schedule_expression_timezone = var.timezone
  state                        = var.running && each.value.enabled ? "ENABLED" : "DISABLED"

  flexible_time_window {
    mode                      = "FLEXIBLE"
    maximum_window_in_minutes = each.value.window_minutes
  }

  target {
    arn      = "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun"
    role_arn = aws_iam_role.this.arn

    # EventBridge puts an id of the attempt in the place of <…>, so that EMR takes no attempt twice. jsonencode writes
    # < and > as codes, which EventBridge does not look for.
    input = replace(
      replace(jsonencode(merge(var.job_runs[each.key], { ClientToken = "<aws.scheduler.execution-id>" })), "\\u003c", "<"),
      "\\u003e", ">",
    )

    retry_policy {
      maximum_retry_attempts       = var.retry_attempts
      maximum_event_age_in_seconds = var.retry_seconds
    }

    dead_letter_config {
      arn = aws_sqs_queue.dead_letters.arn
    }
  }

  depends_on = [aws_iam_role_policy.this]
}

resource "aws_sqs_queue" "dead_letters" {
  name                      = "${var.name}-schedule-dead-letters"
  sqs_managed_sse_enabled   = true
  message_retention_seconds = 1209600 # two weeks: the longest
  tags                      = var.tags
}

resource "aws_sqs_queue_policy" "dead_letters" {
  queue_url = aws_sqs_queue.dead_letters.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "DenyWithoutTls"
      Effect    = "Deny"
      Principal = "*"
      Action    = "sqs:*"
      Resource  = aws_sqs_queue.dead_letters.arn
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })
}

resource "aws_iam_role" "this" {
  name                 = "${var.name}-schedules"
  description          = "sparklog: EventBridge starts jobs by it"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "scheduler.amazonaws.com" }
      Condition = { StringEquals = { "aws:SourceArn" = aws_scheduler_schedule_group.this.arn } }
    }]
  })
}

resource "aws_iam_role_policy" "this" {
  name = "start-jobs"
  role = aws_iam_role.this.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "Start"
        Effect   = "Allow"
        Action   = ["emr-serverless:StartJobRun"]
        Resource = [var.application_arn]
      },
      {
        Sid       = "RoleOfTheJobs"
        Effect    = "Allow"
        Action    = ["iam:PassRole"]
        Resource  = [var.job_role_arn]
        Condition = { StringEquals = { "iam:PassedToService" = "emr-serverless.amazonaws.com" } }
      },
      {
        Sid      = "DeadLetters"
        Effect   = "Allow"
        Action   = ["sqs:SendMessage"]
        Resource = [aws_sqs_queue.dead_letters.arn]
      },
    ]
  })
}
