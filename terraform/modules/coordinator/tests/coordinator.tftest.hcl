# What ECS, the load balancer and IAM get, without an account.
mock_provider "aws" {
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/mock" }
  }

  mock_resource "aws_lb" {
    defaults = {
      arn        = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/mock/0123456789abcdef"
      arn_suffix = "net/mock/0123456789abcdef"
      dns_name   = "mock.elb.eu-central-1.amazonaws.com"
      zone_id    = "Z0123456789"
    }
  }

  mock_resource "aws_lb_target_group" {
    defaults = {
      arn        = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/mock/0123456789abcdef"
      arn_suffix = "targetgroup/mock/0123456789abcdef"
    }
  }
}

variables {
  name                             = "acme"
  region                           = "eu-central-1"
  coordinators                     = 3
  image                            = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/sparklog:0.1.0"
  repository_arns                  = ["arn:aws:ecr:eu-central-1:123456789012:repository/sparklog"]
  metadata_url                     = "s3://acme-a-eu-central-1/log"
  dns_name                         = "log.acme.internal"
  hosted_zone                      = { id = "Z0ACME" }
  vpc_id                           = "vpc-0123"
  subnet_ids                       = ["subnet-a", "subnet-b"]
  security_group_ids               = ["sg-coordinators"]
  load_balancer_security_group_ids = ["sg-load-balancer"]
  task_role_arn                    = "arn:aws:iam::123456789012:role/acme-coordinator"
  tls_secret_arn                   = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:acme-tls-AbCdEf"
  access_secret_arn                = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:acme-access-AbCdEf"
  secret_key_arns                  = ["arn:aws:kms:eu-central-1:123456789012:key/0123"]
  log_group = {
    name = "/sparklog/acme/coordinators"
    arn  = "arn:aws:logs:eu-central-1:123456789012:log-group:/sparklog/acme/coordinators"
  }
}

run "each_has_an_address_and_a_zone_of_its_own" {
  command = apply

  assert {
    condition     = output.url == "https://log.acme.internal:7400,https://log.acme.internal:7401,https://log.acme.internal:7402"
    error_message = "The address of the cluster names each coordinator."
  }

  assert {
    condition = join(",", [
      for number in ["0", "1", "2"] :
      one([for pair in output.task_definitions[number].environment : pair.value if pair.name == "SPARKLOG_ADVERTISE"])
    ]) == output.url
    error_message = "Each coordinator advertises the address that leads to it."
  }

  assert {
    condition     = [for number in ["0", "1", "2"] : aws_lb_listener.this[number].port] == [7400, 7401, 7402]
    error_message = "Each coordinator has a port of its own."
  }

  assert {
    condition = [
      for service in values(aws_ecs_service.this) : one(one(service.network_configuration).subnets)
    ] == ["subnet-a", "subnet-b", "subnet-a"]
    error_message = "Coordinators go from zone to zone."
  }

  assert {
    condition     = aws_route53_record.this[0].name == "log.acme.internal" && one(aws_route53_record.this[0].alias).name == aws_lb.this.dns_name
    error_message = "dns_name leads to the load balancer."
  }
}

run "nothing_of_it_is_open" {
  command = plan

  assert {
    condition     = aws_lb.this.internal && aws_lb.this.load_balancer_type == "network" && alltrue([for listener in values(aws_lb_listener.this) : listener.protocol == "TCP"])
    error_message = "The load balancer is internal, and TLS ends in the coordinator."
  }

  assert {
    condition     = alltrue([for service in values(aws_ecs_service.this) : !one(service.network_configuration).assign_public_ip && !service.enable_execute_command])
    error_message = "Tasks have no public address and no shell."
  }

  assert {
    condition = alltrue([
      for definition in values(aws_ecs_task_definition.this) : alltrue([
        for container in jsondecode(definition.container_definitions) :
        container.readonlyRootFilesystem && container.user == "10001:10001" && container.linuxParameters.capabilities.drop == ["ALL"]
      ])
    ])
    error_message = "Containers run as a user without rights on a root that can't be written."
  }

  assert {
    condition = alltrue([
      for definition in values(aws_ecs_task_definition.this) :
      [for secret in jsondecode(definition.container_definitions)[0].secrets : secret.name] == ["ACCESS_FILE", "TLS_CERTIFICATE", "TLS_PRIVATE_KEY"]
    ])
    error_message = "Certificate, key and access file come from Secrets Manager."
  }

  assert {
    condition = alltrue([
      for part in ["umask 077", "--tls-certificate", "--tls-key", "--access", "unset TLS_CERTIFICATE TLS_PRIVATE_KEY ACCESS_FILE", "exec sparklog coordinator"] :
      strcontains(jsondecode(aws_ecs_task_definition.this["0"].container_definitions)[0].command[0], part)
    ])
    error_message = "The command writes the secrets for its own user only, takes them out of the environment, and becomes the coordinator."
  }
}

run "a_rolling_upgrade_replaces_one_by_one" {
  command = plan

  assert {
    condition = alltrue([
      for service in values(aws_ecs_service.this) :
      service.desired_count == 1 && service.deployment_minimum_healthy_percent == 0 && service.deployment_maximum_percent == 100
      && service.wait_for_steady_state && one(service.deployment_circuit_breaker).enable && one(service.deployment_circuit_breaker).rollback
    ])
    error_message = "A coordinator is stopped before the next version of it starts, and the next one waits until it is up."
  }

  assert {
    condition     = alltrue([for definition in values(aws_ecs_task_definition.this) : definition.skip_destroy])
    error_message = "ECS can return to the old task definition."
  }

  assert {
    condition     = alltrue([for definition in values(aws_ecs_task_definition.this) : jsondecode(definition.container_definitions)[0].stopTimeout == 30])
    error_message = "A coordinator has time to resign."
  }

  assert {
    condition = alltrue([
      for group in values(aws_lb_target_group.this) :
      one(group.health_check).protocol == "HTTPS" && one(group.health_check).path == "/healthz"
    ])
    error_message = "A coordinator that stands by counts as healthy."
  }
}

run "ecs_may_start_it_and_nothing_else" {
  command = plan

  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.execution.policy).Statement :
      !contains(statement.Resource, "*") || statement.Action == ["ecr:GetAuthorizationToken"]
    ])
    error_message = "Only the one request that is for no resource may have a wildcard."
  }

  assert {
    condition = one([
      for statement in jsondecode(aws_iam_role_policy.execution.policy).Statement : statement.Resource if statement.Sid == "Secrets"
    ]) == [var.tls_secret_arn, var.access_secret_arn]
    error_message = "ECS reads these two secrets and no others."
  }

  assert {
    condition     = alltrue([for definition in values(aws_ecs_task_definition.this) : definition.task_role_arn == var.task_role_arn && definition.task_role_arn != definition.execution_role_arn])
    error_message = "The role of the coordinator is not the one by which it is started."
  }
}

run "an_operator_works_in_the_vpc" {
  command = apply

  variables {
    operator = {
      task_role_arn      = "arn:aws:iam::123456789012:role/acme-operator"
      token_secret_arn   = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:acme-operator-token-AbCdEf"
      security_group_ids = ["sg-clients"]
      ca_pem             = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
    }
  }

  assert {
    condition     = aws_ecs_task_definition.operator[0].family == "acme-operator" && aws_ecs_task_definition.operator[0].task_role_arn == var.operator.task_role_arn
    error_message = "The task has the operator's role."
  }

  assert {
    condition     = jsondecode(aws_ecs_task_definition.operator[0].container_definitions)[0].secrets == [{ name = "SPARKLOG_TOKEN", valueFrom = var.operator.token_secret_arn }]
    error_message = "The task has the operator's token."
  }

  assert {
    condition = { for pair in jsondecode(aws_ecs_task_definition.operator[0].container_definitions)[0].environment : pair.name => pair.value } == {
      AWS_REGION       = "eu-central-1"
      SPARKLOG_CLUSTER = output.url
      CA_CERTIFICATE   = var.operator.ca_pem
    }
    error_message = "Commands of the operator go to the coordinators."
  }

  assert {
    condition     = contains(one([for statement in jsondecode(aws_iam_role_policy.execution.policy).Statement : statement.Resource if statement.Sid == "Secrets"]), var.operator.token_secret_arn)
    error_message = "ECS reads the operator's token."
  }

  assert {
    condition     = strcontains(output.operator_function, "--task-definition acme-operator --network-configuration 'awsvpcConfiguration={subnets=[subnet-a,subnet-b],securityGroups=[sg-clients],assignPublicIp=DISABLED}'")
    error_message = "The function starts the task where clients are."
  }
}

run "an_operator_is_optional" {
  command = plan

  assert {
    condition     = length(aws_ecs_task_definition.operator) == 0 && output.operator_function == null
    error_message = "Without operator there is no such task."
  }
}

run "a_token_in_plain_text_is_refused" {
  command = plan

  variables {
    operator = { task_role_arn = "arn:aws:iam::123456789012:role/acme-operator", token_secret_arn = "sparklog_x", security_group_ids = ["sg-clients"] }
  }

  expect_failures = [var.operator]
}

run "metrics_can_be_switched_off" {
  command = plan

  variables {
    emf_namespace = null
  }

  assert {
    condition     = !contains([for pair in jsondecode(aws_ecs_task_definition.this["0"].container_definitions)[0].environment : pair.name], "SPARKLOG_EMF_NAMESPACE")
    error_message = "Without a namespace no metrics are printed."
  }
}

run "container_insights_logs_like_the_coordinators" {
  command = apply

  variables {
    log_group = {
      name           = "/sparklog/acme/coordinators"
      arn            = "arn:aws:logs:eu-central-1:123456789012:log-group:/sparklog/acme/coordinators"
      retention_days = 30
      kms_key_arn    = "arn:aws:kms:eu-central-1:123456789012:key/logs"
    }
  }

  assert {
    condition = (
      aws_cloudwatch_log_group.insights.name == "/aws/ecs/containerinsights/${aws_ecs_cluster.this.name}/performance"
      && aws_cloudwatch_log_group.insights.retention_in_days == 30 && aws_cloudwatch_log_group.insights.kms_key_id == var.log_group.kms_key_arn
    )
    error_message = "The log group of Container Insights is encrypted and ends."
  }
}

run "a_name_that_load_balancers_may_not_have_is_refused" {
  command = plan

  variables {
    name = "internal-log"
  }

  expect_failures = [var.name]
}

run "one_coordinator_is_refused" {
  command = plan

  variables {
    coordinators = 1
  }

  expect_failures = [var.coordinators]
}

run "a_tag_that_moves_is_refused" {
  command = plan

  variables {
    image = "sparklog:latest"
  }

  expect_failures = [var.image]
}

run "no_tag_at_all_is_refused" {
  command = plan

  variables {
    image = "registry.example.org:5000/sparklog"
  }

  expect_failures = [var.image]
}

run "another_address_than_s3_is_refused" {
  command = plan

  variables {
    metadata_url = "https://log.acme.internal:7400"
  }

  expect_failures = [var.metadata_url]
}

run "a_secret_in_the_config_is_refused" {
  command = plan

  variables {
    config = "[storage.a]\nsecret_access_key = \"x\"\n"
  }

  expect_failures = [var.config]
}

run "too_little_memory_is_refused" {
  command = plan

  variables {
    memory_mib = 512
  }

  expect_failures = [var.memory_mib]
}

run "a_single_zone_is_refused" {
  command = plan

  variables {
    subnet_ids = ["subnet-a"]
  }

  expect_failures = [var.subnet_ids]
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
