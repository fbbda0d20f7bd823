mock_provider "aws" {
  mock_resource "aws_emrserverless_application" {
    defaults = {
      arn = "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/00f1mock"
      id  = "00f1mock"
    }
  }

  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:123456789012:key/mock" }
  }
}

variables {
  name         = "acme"
  region       = "eu-central-1"
  dist_dir     = "tests/made"
  cluster      = "https://log.acme.internal:7400,https://log.acme.internal:7401"
  metadata_url = "s3://acme-a-eu-central-1/log"
  job_role     = { arn = "arn:aws:iam::123456789012:role/acme-maintenance", name = "acme-maintenance" }
  token_secret = { arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:acme-jobs-AbCdEf", name = "acme-jobs" }
  network      = { subnet_ids = ["subnet-a", "subnet-b"], security_group_ids = ["sg-clients"] }
  log_group = {
    name = "/sparklog/acme/jobs"
    arn  = "arn:aws:logs:eu-central-1:123456789012:log-group:/sparklog/acme/jobs"
  }
}

run "each_job_is_called_with_the_cluster" {
  command = apply

  assert {
    condition     = keys(output.job_runs) == ["compaction", "recovery", "retention", "roll", "vacuum", "verify"]
    error_message = "There is a run for each job."
  }

  assert {
    condition = (
      output.job_runs.roll.JobDriver.SparkSubmit.EntryPoint == "s3://acme-artefacts-eu-central-1/artefacts/jobs/roll.py"
      && output.job_runs.roll.JobDriver.SparkSubmit.EntryPointArguments == tolist(["--cluster", var.cluster])
      && output.job_runs.verify.JobDriver.SparkSubmit.EntryPointArguments == tolist(["--cluster", var.cluster, "--share", "7"])
    )
    error_message = "Jobs get the address of the coordinators, and their own arguments."
  }

  assert {
    condition     = output.job_runs.vacuum.JobDriver.SparkSubmit.EntryPointArguments == tolist(["--cluster", var.metadata_url])
    error_message = "Vacuum gets the address of the chain, whose old entries it deletes."
  }

  assert {
    condition = alltrue([
      for part in [
        "--archives s3://acme-artefacts-eu-central-1/artefacts/a43a70e2489c/sparklog-environment-0.0.0-cp311-linux_x86_64.tar.gz#environment",
        "--conf spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON=./environment/bin/python",
        "--conf spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python",
        "--conf spark.emr-serverless.driverEnv.SPARKLOG_TOKEN=EMR.secret@acme-jobs",
      ] : strcontains(output.job_runs.roll.JobDriver.SparkSubmit.SparkSubmitParameters, part)
    ])
    error_message = "Drivers and executors use the Python of the archive, and the driver gets the name of the token's secret."
  }

  assert {
    condition     = alltrue([for run in values(output.job_runs) : !strcontains(run.JobDriver.SparkSubmit.SparkSubmitParameters, "spark.executorEnv.SPARKLOG_TOKEN")])
    error_message = "Executors get no token."
  }

  assert {
    condition     = jsondecode(aws_secretsmanager_secret_policy.token[0].policy).Statement[0].Condition.StringEquals["aws:SourceArn"] == output.application.arn
    error_message = "The token is for this application only."
  }

  assert {
    condition     = output.job_runs.roll.ApplicationId == "00f1mock" && output.job_runs.roll.ExecutionRoleArn == var.job_role.arn && output.job_runs.roll.Mode == "BATCH"
    error_message = "Runs name the application and the role."
  }

  assert {
    condition     = strcontains(output.start_commands.roll, "aws emr-serverless start-job-run") && strcontains(output.start_commands.roll, "\"entryPointArguments\"")
    error_message = "There is a command for each job."
  }

  assert {
    condition = alltrue([
      for part in [
        "--mode BATCH", "--execution-timeout-minutes 360", "--retry-policy '{\"maxAttempts\":1}'",
        "\"cloudWatchLoggingConfiguration\":{\"enabled\":true,\"logGroupName\":\"/sparklog/acme/jobs\",\"logStreamNamePrefix\":\"jobs\"}",
      ] : strcontains(output.start_commands.roll, part)
    ])
    error_message = "A job that is started by hand logs and retries like a scheduled one."
  }

  assert {
    condition = { # the fields without their capitals
      for name, run in output.job_runs : name => lower(jsonencode(run.ConfigurationOverrides))
      } == {
      for name, command in output.start_commands : name => lower(regex("--configuration-overrides '(.*)'$", command)[0])
    }
    error_message = "The logs of a job that is started by hand go where those of a scheduled one go."
  }
}

run "spark_is_4_and_bounded" {
  command = plan

  assert {
    condition     = aws_emrserverless_application.this.type == "SPARK" && aws_emrserverless_application.this.release_label == "emr-spark-8.0.0"
    error_message = "The release has Spark 4."
  }

  assert {
    condition     = one(aws_emrserverless_application.this.maximum_capacity).cpu == "16 vCPU" && one(aws_emrserverless_application.this.auto_stop_configuration).enabled
    error_message = "What jobs may cost is bounded, by what a new account may use at once."
  }
}

run "an_archive_stays_while_runs_name_it" {
  command = plan

  variables {
    dist_dir = "tests/made_again"
  }

  assert {
    condition = { for key, object in aws_s3_object.archives : object.key => object.source } == {
      "artefacts/458ffdf579d6/sparklog-environment-0.0.0-cp311-linux_x86_64.tar.gz" = "tests/made_again/sparklog-environment-0.0.0-cp311-linux_x86_64.tar.gz"
      "artefacts/a43a70e2489c/sparklog-environment-0.0.0-cp311-linux_x86_64.tar.gz" = "tests/made_again/former/sparklog-environment-0.0.0-cp311-linux_x86_64.tar.gz"
    }
    error_message = "Another build gets another key, and the one in the folder former keeps its own."
  }

  assert {
    condition     = strcontains(output.job_runs.roll.JobDriver.SparkSubmit.SparkSubmitParameters, "artefacts/458ffdf579d6/")
    error_message = "Jobs use the new build."
  }
}

run "artefacts_are_closed" {
  command = plan

  assert {
    condition = (
      aws_s3_bucket_public_access_block.artefacts.block_public_acls && aws_s3_bucket_public_access_block.artefacts.block_public_policy
      && aws_s3_bucket_public_access_block.artefacts.ignore_public_acls && aws_s3_bucket_public_access_block.artefacts.restrict_public_buckets
    )
    error_message = "The bucket is closed to the public."
  }

  assert {
    condition     = jsondecode(aws_s3_bucket_policy.artefacts.policy).Statement[0].Condition.Bool["aws:SecureTransport"] == "false"
    error_message = "The bucket answers over TLS only."
  }
}

run "files_come_along" {
  command = apply

  variables {
    ca_pem = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
    config = "[storage.b]\nregion = \"eu-west-1\"\n"
  }

  assert {
    condition = alltrue([
      for part in [
        "--files s3://acme-artefacts-eu-central-1/artefacts/ca.crt,s3://acme-artefacts-eu-central-1/artefacts/sparklog.toml",
        "--conf spark.emr-serverless.driverEnv.SPARKLOG_CA=./ca.crt",
        "--conf spark.emr-serverless.driverEnv.SPARKLOG_CONFIG=./sparklog.toml",
        "--conf spark.executorEnv.SPARKLOG_CONFIG=./sparklog.toml",
      ] : strcontains(output.job_runs.roll.JobDriver.SparkSubmit.SparkSubmitParameters, part)
    ])
    error_message = "The CA and the config file are beside the driver."
  }
}

run "jobs_may_do_what_they_need_here" {
  command = apply

  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.jobs.policy).Statement :
      !contains(statement.Resource, "*") || statement.Action == ["logs:DescribeLogGroups"]
    ])
    error_message = "Only the one request that is for no group may have a wildcard."
  }
}

run "an_old_spark_is_refused" {
  command = plan

  variables {
    release_label = "emr-7.10.0"
  }

  expect_failures = [var.release_label]
}

run "no_environment_is_refused" {
  command = plan

  variables {
    dist_dir = "tests"
  }

  expect_failures = [var.dist_dir]
}

run "an_environment_of_another_processor_is_refused" {
  command = plan

  variables {
    dist_dir = "tests/made_for_arm"
  }

  expect_failures = [var.dist_dir]
}

run "an_environment_of_another_python_is_refused" {
  command = plan

  variables {
    dist_dir = "tests/made_for_310"
  }

  expect_failures = [var.dist_dir]
}

run "an_unknown_job_is_refused" {
  command = plan

  variables {
    jobs = { nightly = {} }
  }

  expect_failures = [var.jobs]
}

run "settings_that_emr_would_split_are_refused" {
  command = plan

  variables {
    jobs = { roll = { spark_conf = { "spark.app.name" = "roll --conf x=y" } } }
  }

  expect_failures = [var.jobs]
}

run "coordinators_without_a_token_are_refused" {
  command = plan

  variables {
    token_secret = null
  }

  expect_failures = [var.token_secret]
}

run "coordinators_without_a_network_are_refused" {
  command = plan

  variables {
    network = null
  }

  expect_failures = [var.network]
}
