mock_provider "aws" {
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/mock" }
  }
}

variables {
  name               = "acme"
  region             = "eu-central-1"
  stores             = { a = { zone = "z1" }, "b.old" = {} }
  cluster            = "https://log.acme.internal:7400,https://log.acme.internal:7401"
  image              = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/sparklog:0.1.0"
  repository_arns    = ["arn:aws:ecr:eu-central-1:123456789012:repository/sparklog"]
  ecs_cluster_arn    = "arn:aws:ecs:eu-central-1:123456789012:cluster/acme"
  subnet_ids         = ["subnet-a", "subnet-b"]
  security_group_ids = ["sg-clients"]
  task_role_arn      = "arn:aws:iam::123456789012:role/acme-agent"
  token_secret_arn   = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:acme-agent-AbCdEf"
  log_group = {
    name = "/sparklog/acme/agents"
    arn  = "arn:aws:logs:eu-central-1:123456789012:log-group:/sparklog/acme/agents"
  }
}

run "a_store_has_one_agent" {
  command = plan

  assert {
    condition     = keys(aws_ecs_service.this) == ["a", "b.old"] && aws_ecs_service.this["b.old"].name == "acme-agent-b_old"
    error_message = "There is a service for each store."
  }

  assert {
    condition = alltrue([
      for service in values(aws_ecs_service.this) :
      service.desired_count == 1 && service.deployment_minimum_healthy_percent == 0 && service.deployment_maximum_percent == 100
    ])
    error_message = "The old agent ends before the new one starts."
  }

  assert {
    condition     = alltrue([for definition in values(aws_ecs_task_definition.this) : definition.skip_destroy])
    error_message = "ECS can return to the old task definition."
  }

  assert {
    condition = { for pair in jsondecode(aws_ecs_task_definition.this["a"].container_definitions)[0].environment : pair.name => pair.value } == {
      AWS_REGION       = "eu-central-1"
      SPARKLOG_CLUSTER = var.cluster
      SPARKLOG_ZONE    = "z1"
      STORE            = "a"
    }
    error_message = "An agent knows its store, the zone of that, and the coordinators."
  }

  assert {
    condition     = !contains([for pair in jsondecode(aws_ecs_task_definition.this["b.old"].container_definitions)[0].environment : pair.name], "SPARKLOG_ZONE")
    error_message = "A store without a zone has an agent without one."
  }
}

run "nothing_of_it_is_open" {
  command = plan

  assert {
    condition = alltrue([
      for definition in values(aws_ecs_task_definition.this) : alltrue([
        for container in jsondecode(definition.container_definitions) :
        container.readonlyRootFilesystem && container.user == "10001:10001" && container.linuxParameters.capabilities.drop == ["ALL"]
        && container.secrets == [{ name = "SPARKLOG_TOKEN", valueFrom = var.token_secret_arn }]
      ])
    ])
    error_message = "Containers run as a user without rights on a root that can't be written, with the token from Secrets Manager."
  }

  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.execution.policy).Statement :
      !contains(statement.Resource, "*") || statement.Action == ["ecr:GetAuthorizationToken"]
    ])
    error_message = "Only the one request that is for no resource may have a wildcard."
  }
}

run "without_coordinators_there_is_no_token" {
  command = plan

  variables {
    cluster          = "s3://acme-a-eu-central-1/log"
    token_secret_arn = null
  }

  assert {
    condition     = length(jsondecode(aws_ecs_task_definition.this["a"].container_definitions)[0].secrets) == 0
    error_message = "An embedded cluster asks for no token."
  }

  assert {
    condition     = !contains([for statement in jsondecode(aws_iam_role_policy.execution.policy).Statement : statement.Sid], "Secrets")
    error_message = "Without a secret there is no right to read one."
  }
}

run "coordinators_without_a_token_are_refused" {
  command = plan

  variables {
    token_secret_arn = null
  }

  expect_failures = [var.token_secret_arn]
}

run "a_new_store_waits_for_its_agent" {
  command = plan

  variables {
    store_ids = ["a"]
  }

  assert {
    condition     = keys(aws_ecs_service.this) == ["a"] && keys(aws_ecs_task_definition.this) == ["a"]
    error_message = "Only the stores that are registered have an agent."
  }
}

run "an_agent_of_no_store_is_refused" {
  command = plan

  variables {
    store_ids = ["a", "c"]
  }

  expect_failures = [var.store_ids]
}

run "one_store_is_refused" {
  command = plan

  variables {
    stores = { a = {} }
  }

  expect_failures = [var.stores]
}

run "a_private_key_is_refused" {
  command = plan

  variables {
    ca_pem = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"
  }

  expect_failures = [var.ca_pem]
}

run "it_can_be_stopped" {
  command = plan

  variables {
    running = false
  }

  assert {
    condition     = alltrue([for service in values(aws_ecs_service.this) : service.desired_count == 0])
    error_message = "Nothing runs before there is a cluster."
  }
}
