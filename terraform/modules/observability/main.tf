locals {
  log_groups = { for group in var.log_groups : group => "/sparklog/${var.name}/${group}" }
  log_arn    = "arn:aws:logs:${var.region}:${var.account_id}:log-group"

  # Written out, as the policy of the key comes before the topic.
  topic_arn = "arn:aws:sns:${var.region}:${var.account_id}:${var.name}-alarms"
}

resource "aws_kms_key" "this" {
  description             = "Logs and alarms of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = var.key_deletion_days
  tags                    = var.tags

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "IamDecides"
        Effect    = "Allow"
        Principal = { AWS = "arn:aws:iam::${var.account_id}:root" }
        Action    = "kms:*"
        Resource  = "*" # of a key's policy: the key itself
      },
      {
        Sid       = "Logs"
        Effect    = "Allow"
        Principal = { Service = "logs.${var.region}.amazonaws.com" }
        Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
        Resource  = "*"
        Condition = { ArnLike = { "kms:EncryptionContext:aws:logs:arn" = [
          "${local.log_arn}:/sparklog/${var.name}/*",
          "${local.log_arn}:/aws/ecs/containerinsights/${var.name}/*",
        ] } }
      },
      {
        Sid       = "Alarms"
        Effect    = "Allow"
        Principal = { Service = "cloudwatch.amazonaws.com" }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource  = "*"
        Condition = { StringEquals = { "aws:SourceAccount" = var.account_id } }
      },
      {
        Sid       = "Events" # KMS is not told for which account EventBridge asks, but which topic the message is for
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource  = "*"
        Condition = { StringEquals = { "kms:EncryptionContext:aws:sns:topicArn" = local.topic_arn } }
      },
    ]
  })
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}-logs"
  target_key_id = aws_kms_key.this.key_id
}

resource "aws_cloudwatch_log_group" "this" {
  #checkov:skip=CKV_AWS_338:retention_days is a year unless it is set otherwise
  for_each = local.log_groups

  name              = each.value
  retention_in_days = var.retention_days
  kms_key_id        = aws_kms_key.this.arn
  tags              = var.tags
}

resource "aws_sns_topic" "alarms" {
  name              = "${var.name}-alarms"
  kms_master_key_id = aws_kms_key.this.arn
  tags              = var.tags
}

resource "aws_sns_topic_policy" "alarms" {
  arn = aws_sns_topic.alarms.arn

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [{
        Sid       = "Alarms"
        Effect    = "Allow"
        Principal = { Service = "cloudwatch.amazonaws.com" }
        Action    = ["sns:Publish"]
        Resource  = aws_sns_topic.alarms.arn
        Condition = { StringEquals = { "aws:SourceAccount" = var.account_id } }
      }],
      [for rule in aws_cloudwatch_event_rule.failed_runs : {
        Sid       = "Events"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = ["sns:Publish"]
        Resource  = aws_sns_topic.alarms.arn
        Condition = { ArnEquals = { "aws:SourceArn" = rule.arn } }
      }],
    )
  })
}

resource "aws_sns_topic_subscription" "emails" {
  for_each = var.emails

  topic_arn = aws_sns_topic.alarms.arn
  protocol  = "email"
  endpoint  = each.value
}

# Only this notices a job that fails before it can write its report into the chain.
resource "aws_cloudwatch_event_rule" "failed_runs" {
  count = var.application == null ? 0 : 1

  name        = "${var.name}-failed-runs"
  description = "sparklog: a run of a job on EMR Serverless failed or was cancelled"
  tags        = var.tags

  event_pattern = jsonencode({
    source      = ["aws.emr-serverless"]
    detail-type = ["EMR Serverless Job Run State Change"]
    detail = {
      applicationId = [var.application.id]
      state         = ["CANCELLED", "FAILED"] # EMR cancels a run that takes longer than its timeout
    }
  })
}

resource "aws_cloudwatch_event_target" "failed_runs" {
  count = var.application == null ? 0 : 1

  rule = aws_cloudwatch_event_rule.failed_runs[0].name
  arn  = aws_sns_topic.alarms.arn

  input_transformer {
    input_paths = {
      application = "$.detail.applicationId"
      run         = "$.detail.jobRunId"
      time        = "$.time"
    }

    # Not jsonencode: it writes < and > as codes, which EventBridge does not look for.
    input_template = "\"A run of a job on EMR Serverless failed or was cancelled at <time>, as runs are that take too long. Its name and the reason: aws emr-serverless get-job-run --region ${var.region} --application-id <application> --job-run-id <run>. ${local.runbook}\""
  }
}
