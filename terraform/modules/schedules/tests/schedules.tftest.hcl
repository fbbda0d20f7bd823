mock_provider "aws" {
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/mock" }
  }

  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-central-1:123456789012:mock" }
  }

  mock_resource "aws_scheduler_schedule_group" {
    defaults = { arn = "arn:aws:scheduler:eu-central-1:123456789012:schedule-group/acme" }
  }
}

variables {
  name            = "acme"
  application_arn = "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/00f1mock"
  job_role_arn    = "arn:aws:iam::123456789012:role/acme-maintenance"
  job_runs = {
    for name in ["roll", "retention", "compaction", "recovery", "verify", "vacuum"] : name => {
      ApplicationId    = "00f1mock"
      ExecutionRoleArn = "arn:aws:iam::123456789012:role/acme-maintenance"
      JobDriver = { SparkSubmit = {
        EntryPoint            = "s3://acme-artefacts/artefacts/jobs/${name}.py"
        EntryPointArguments   = ["--cluster", "https://log.acme.internal:7400"]
        SparkSubmitParameters = "--conf a=b"
      } }
    }
  }
}

run "every_job_comes_by_itself" {
  command = apply

  assert {
    condition     = keys(aws_scheduler_schedule.this) == ["compaction", "recovery", "retention", "roll", "vacuum", "verify"] && alltrue([for schedule in values(aws_scheduler_schedule.this) : schedule.state == "ENABLED"])
    error_message = "Roll, retention, compaction, recovery, verify and vacuum are scheduled."
  }

  assert {
    condition = alltrue([
      for name, schedule in aws_scheduler_schedule.this :
      jsondecode(one(schedule.target).input) == merge(var.job_runs[name], { ClientToken = "<aws.scheduler.execution-id>" })
    ])
    error_message = "A schedule passes the run on as it is, with an id for the attempt."
  }

  assert {
    condition     = alltrue([for schedule in values(aws_scheduler_schedule.this) : strcontains(one(schedule.target).input, "\"<aws.scheduler.execution-id>\"")])
    error_message = "EventBridge looks for < and >, not for their codes."
  }

  assert {
    condition     = alltrue([for schedule in values(aws_scheduler_schedule.this) : one(schedule.target).arn == "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun"])
    error_message = "EventBridge calls StartJobRun itself."
  }

  assert {
    condition = alltrue([
      for schedule in values(aws_scheduler_schedule.this) :
      one(one(schedule.target).dead_letter_config).arn == aws_sqs_queue.dead_letters.arn && one(one(schedule.target).retry_policy).maximum_retry_attempts == 5
      && one(schedule.flexible_time_window).mode == "FLEXIBLE"
    ])
    error_message = "A start that fails is tried again, then kept in the dead letter queue."
  }
}

run "eventbridge_may_start_these_jobs_and_nothing_else" {
  command = apply

  assert {
    condition = { for statement in jsondecode(aws_iam_role_policy.this.policy).Statement : statement.Action[0] => statement.Resource } == {
      "emr-serverless:StartJobRun" = [var.application_arn]
      "iam:PassRole"               = [var.job_role_arn]
      "sqs:SendMessage"            = [aws_sqs_queue.dead_letters.arn]
    }
    error_message = "The role starts jobs of this application, with the role of the jobs."
  }

  assert {
    condition     = one([for statement in jsondecode(aws_iam_role_policy.this.policy).Statement : statement.Condition if statement.Sid == "RoleOfTheJobs"]).StringEquals["iam:PassedToService"] == "emr-serverless.amazonaws.com"
    error_message = "The role of the jobs goes to EMR Serverless only."
  }

  assert {
    condition     = jsondecode(aws_iam_role.this.assume_role_policy).Statement[0].Condition.StringEquals["aws:SourceArn"] == aws_scheduler_schedule_group.this.arn
    error_message = "Only schedules of this group take the role."
  }

  assert {
    condition     = aws_sqs_queue.dead_letters.sqs_managed_sse_enabled
    error_message = "Dead letters are encrypted."
  }
}

run "a_job_that_is_not_there_is_refused" {
  command = plan

  variables {
    schedules = { nightly = { expression = "rate(1 day)" } }
  }

  expect_failures = [var.schedules]
}

run "an_expression_of_cron_itself_is_refused" {
  command = plan

  variables {
    schedules = { roll = { expression = "*/10 * * * *" } }
  }

  expect_failures = [var.schedules]
}

run "it_can_be_stopped" {
  command = plan

  variables {
    running = false
  }

  assert {
    condition     = alltrue([for schedule in values(aws_scheduler_schedule.this) : schedule.state == "DISABLED"])
    error_message = "Nothing starts before there is a cluster."
  }
}
