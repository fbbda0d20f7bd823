output "application" {
  description = "The EMR Serverless application."
  value = {
    arn  = aws_emrserverless_application.this.arn
    id   = aws_emrserverless_application.this.id
    name = aws_emrserverless_application.this.name
  }
}

output "job_role_arn" {
  description = "ARN of the role of the jobs."
  value       = var.job_role.arn
}

output "job_runs" {
  description = "The input of StartJobRun for each job, as the module schedules takes it."
  value       = local.job_runs

  # A job starts only once its files and its rights are there.
  depends_on = [aws_s3_object.archives, aws_s3_object.jobs, aws_s3_object.texts, aws_iam_role_policy.jobs, aws_secretsmanager_secret_policy.token]
}

# The command line spells the fields of StartJobRun with a small first letter, schedules with a capital.
locals {
  command_monitoring = merge(
    { managedPersistenceMonitoringConfiguration = { enabled = true } },
    var.log_group == null ? {} : { cloudWatchLoggingConfiguration = {
      enabled             = true
      logGroupName        = var.log_group.name
      logStreamNamePrefix = "jobs"
    } },
  )
}

output "start_commands" {
  description = "The command of the AWS CLI that starts each job now, with everything that job_runs has."
  value = {
    for name, run in local.job_runs : name => join(" ", [
      "aws emr-serverless start-job-run",
      "--region ${var.region}",
      "--application-id ${run.ApplicationId}",
      "--execution-role-arn ${run.ExecutionRoleArn}",
      "--name ${name}",
      "--mode ${run.Mode}",
      "--execution-timeout-minutes ${run.ExecutionTimeoutMinutes}",
      "--retry-policy '${jsonencode({ maxAttempts = run.RetryPolicy.MaxAttempts })}'",
      "--job-driver '${jsonencode({ sparkSubmit = {
        entryPoint            = run.JobDriver.SparkSubmit.EntryPoint
        entryPointArguments   = run.JobDriver.SparkSubmit.EntryPointArguments
        sparkSubmitParameters = run.JobDriver.SparkSubmit.SparkSubmitParameters
      } })}'",
      "--configuration-overrides '${jsonencode({ monitoringConfiguration = local.command_monitoring })}'",
    ])
  }
}

output "artefact_bucket_arn" {
  description = "ARN of the bucket with the artefacts."
  value       = aws_s3_bucket.artefacts.arn
}
