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

  # Whoever starts a job finds its files and its rights.
  depends_on = [aws_s3_object.archive, aws_s3_object.jobs, aws_s3_object.texts, aws_iam_role_policy.jobs, aws_secretsmanager_secret_policy.token]
}

output "start_commands" {
  description = "The command of the AWS CLI that starts each job now."
  value = {
    for name, run in local.job_runs : name => join(" ", [
      "aws emr-serverless start-job-run",
      "--region ${var.region}",
      "--application-id ${run.ApplicationId}",
      "--execution-role-arn ${run.ExecutionRoleArn}",
      "--name ${name}",
      "--execution-timeout-minutes ${run.ExecutionTimeoutMinutes}",
      "--job-driver '${jsonencode({ sparkSubmit = {
        entryPoint            = run.JobDriver.SparkSubmit.EntryPoint
        entryPointArguments   = run.JobDriver.SparkSubmit.EntryPointArguments
        sparkSubmitParameters = run.JobDriver.SparkSubmit.SparkSubmitParameters
      } })}'",
    ])
  }
}

output "artefact_bucket_arn" {
  description = "ARN of the bucket with the artefacts."
  value       = aws_s3_bucket.artefacts.arn
}
