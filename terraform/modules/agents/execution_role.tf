# ECS starts tasks with this role: it fetches the image and the secrets, and writes the log. The agent itself has
# task_role_arn, and can't read the secret again.
resource "aws_iam_role" "execution" {
  name                 = "${var.name}-agent-start"
  description          = "sparklog: ECS starts agents by it"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [merge(
      {
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = { Service = "ecs-tasks.amazonaws.com" }
      },
      var.account_id == null ? {} : { Condition = { StringEquals = { "aws:SourceAccount" = var.account_id } } },
    )]
  })
}

resource "aws_iam_role_policy" "execution" {
  name = "start"
  role = aws_iam_role.execution.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [{
        Sid      = "Log"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = ["${var.log_group.arn}:*"]
      }],
      [for secrets in [values(local.secrets)] : {
        Sid      = "Secrets"
        Effect   = "Allow"
        Action   = ["secretsmanager:GetSecretValue"]
        Resource = secrets
      } if length(secrets) > 0],
      [for keys in [var.secret_key_arns] : {
        Sid       = "SecretKeys"
        Effect    = "Allow"
        Action    = ["kms:Decrypt"]
        Resource  = keys
        Condition = { StringEquals = { "kms:ViaService" = "secretsmanager.${var.region}.amazonaws.com" } }
      } if length(keys) > 0],
      flatten([for repositories in [var.repository_arns] : [
        {
          Sid      = "Image"
          Effect   = "Allow"
          Action   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
          Resource = repositories
        },
        {
          Sid      = "Registry"
          Effect   = "Allow"
          Action   = ["ecr:GetAuthorizationToken"]
          Resource = ["*"] # this request is for no repository
        },
      ] if length(repositories) > 0]),
    )
  })
}
