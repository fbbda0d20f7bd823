# Secrets without values: Terraform would keep those in its state. aws secretsmanager put-secret-value sets them.
resource "aws_kms_key" "secrets" {
  description             = "Secrets of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = 7

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
        Sid       = "JobsReadTheirToken"
        Effect    = "Allow"
        Principal = { Service = "emr-serverless.amazonaws.com" }
        Action    = ["kms:Decrypt", "kms:DescribeKey"]
        Resource  = "*"
        Condition = {
          StringEquals = { "kms:ViaService" = "secretsmanager.${var.region}.amazonaws.com" }
          ArnLike      = { "kms:EncryptionContext:SecretARN" = "arn:aws:secretsmanager:${var.region}:${var.account_id}:secret:${var.name}-job-token-*" }
        }
      },
    ]
  })
}

resource "aws_kms_alias" "secrets" {
  name          = "alias/${var.name}-secrets"
  target_key_id = aws_kms_key.secrets.key_id
}

resource "aws_secretsmanager_secret" "this" {
  #checkov:skip=CKV2_AWS_57:tokens and the certificate are replaced beside the old ones, by the steps in docs/deploy.md
  for_each = {
    tls            = "Certificate of the coordinators: JSON with certificate and private_key, both PEM"
    access         = "The access file of the coordinators (TOML)"
    agent-token    = "The token of the agents"
    job-token      = "The token of the jobs"
    operator-token = "The token of the operator"
  }

  name                    = "${var.name}-${each.key}"
  description             = each.value
  kms_key_id              = aws_kms_key.secrets.arn
  recovery_window_in_days = var.secret_recovery_days
}
