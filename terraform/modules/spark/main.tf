resource "aws_emrserverless_application" "this" {
  name          = var.name
  type          = "SPARK"
  release_label = var.release_label
  architecture  = "X86_64"
  tags          = var.tags

  maximum_capacity {
    cpu    = var.maximum_capacity.cpu
    memory = var.maximum_capacity.memory
    disk   = var.maximum_capacity.disk
  }

  auto_start_configuration {
    enabled = true
  }

  auto_stop_configuration {
    enabled              = true
    idle_timeout_minutes = var.idle_timeout_minutes
  }

  dynamic "network_configuration" {
    for_each = var.network == null ? [] : [var.network]

    content {
      subnet_ids         = network_configuration.value.subnet_ids
      security_group_ids = network_configuration.value.security_group_ids
    }
  }
}

locals {
  python = "./environment/bin/python" # of the archive, which Spark unpacks beside each driver and executor

  # Only the driver talks to coordinators. EMR puts the secret's value in the place of its name when the job starts.
  driver_env = merge(
    {
      AWS_REGION            = var.region
      PYSPARK_DRIVER_PYTHON = local.python
      PYSPARK_PYTHON        = local.python
    },
    var.token_secret == null ? {} : { SPARKLOG_TOKEN = "EMR.secret@${var.token_secret.name}" },
    var.ca_pem == null ? {} : { SPARKLOG_CA = "./ca.crt" },
    var.config == null ? {} : { SPARKLOG_CONFIG = "./sparklog.toml" },
  )

  executor_env = merge(
    {
      AWS_REGION     = var.region
      PYSPARK_PYTHON = local.python
    },
    var.config == null ? {} : { SPARKLOG_CONFIG = "./sparklog.toml" },
  )

  spark_conf = {
    for name, job in var.jobs : name => merge(
      { for key, value in local.driver_env : "spark.emr-serverless.driverEnv.${key}" => value },
      { for key, value in local.executor_env : "spark.executorEnv.${key}" => value },
      {
        "spark.driver.cores"                       = tostring(job.driver_cores)
        "spark.driver.memory"                      = job.driver_memory
        "spark.executor.cores"                     = tostring(job.executor_cores)
        "spark.executor.memory"                    = job.executor_memory
        "spark.dynamicAllocation.initialExecutors" = "1" # EMR's default is 3, and most runs find little to do
        "spark.dynamicAllocation.maxExecutors"     = tostring(job.max_executors)
        "spark.scheduler.listenerbus.logSlowEvent" = "false" # its message shows settings in plain text
      },
      job.spark_conf,
    )
  }

  submit_parameters = {
    for name, conf in local.spark_conf : name => join(" ", concat(
      ["--archives", "${local.artefacts}/${local.archive}#environment"],
      length(local.texts) == 0 ? [] : ["--files", join(",", [for text in keys(local.texts) : "${local.artefacts}/${text}"])],
      flatten([for key, value in conf : ["--conf", "${key}=${value}"]]),
    ))
  }

  # Vacuum deletes old entries of the chain, so it needs the address of the chain itself.
  job_clusters = {
    for name, job in var.jobs : name => coalesce(job.cluster, coalesce(job.job, name) == "vacuum" ? var.metadata_url : var.cluster)
  }

  spark_submit = {
    for name, job in var.jobs : name => {
      EntryPoint            = "${local.artefacts}/jobs/${coalesce(job.job, name)}.py"
      EntryPointArguments   = tolist(concat(["--cluster", local.job_clusters[name]], job.arguments))
      SparkSubmitParameters = local.submit_parameters[name]
    }
  }

  monitoring = merge(
    { ManagedPersistenceMonitoringConfiguration = { Enabled = true } },
    var.log_group == null ? {} : { CloudWatchLoggingConfiguration = {
      Enabled             = true
      LogGroupName        = var.log_group.name
      LogStreamNamePrefix = "jobs"
    } },
  )

  job_runs = {
    for name, job in var.jobs : name => {
      ApplicationId           = aws_emrserverless_application.this.id
      ExecutionRoleArn        = var.job_role.arn
      Name                    = name
      Mode                    = "BATCH"
      ExecutionTimeoutMinutes = job.timeout_minutes
      RetryPolicy             = { MaxAttempts = job.max_attempts }
      JobDriver               = { SparkSubmit = local.spark_submit[name] }
      ConfigurationOverrides  = { MonitoringConfiguration = local.monitoring }
    }
  }
}

resource "aws_iam_role_policy" "jobs" {
  name = "${var.name}-jobs"
  role = var.job_role.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Sid      = "Artefacts"
          Effect   = "Allow"
          Action   = ["s3:GetObject"]
          Resource = ["${local.bucket_arn}/artefacts/*"]
        },
        {
          Sid       = "ArtefactList"
          Effect    = "Allow"
          Action    = ["s3:ListBucket"]
          Resource  = [local.bucket_arn]
          Condition = { StringLike = { "s3:prefix" = ["artefacts/*"] } }
        },
        {
          Sid       = "ArtefactKey"
          Effect    = "Allow"
          Action    = ["kms:Decrypt"]
          Resource  = [aws_kms_key.artefacts.arn]
          Condition = { StringEquals = { "kms:ViaService" = "s3.${var.region}.amazonaws.com" } }
        },
      ],
      flatten([for group in var.log_group == null ? [] : [var.log_group] : [
        {
          Sid      = "Log"
          Effect   = "Allow"
          Action   = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
          Resource = ["${group.arn}:*"]
        },
        {
          Sid      = "LogGroups"
          Effect   = "Allow"
          Action   = ["logs:DescribeLogGroups"]
          Resource = ["*"] # EMR looks for the group in the list of all
        },
      ]]),
    )
  })
}

resource "aws_secretsmanager_secret_policy" "token" {
  count = var.token_secret == null ? 0 : 1

  secret_arn = var.token_secret.arn

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "JobsOfThisApplication"
      Effect    = "Allow"
      Principal = { Service = "emr-serverless.amazonaws.com" }
      Action    = ["secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"]
      Resource  = ["*"] # of a secret's policy: the secret itself
      Condition = { StringEquals = { "aws:SourceArn" = aws_emrserverless_application.this.arn } }
    }]
  })
}
