locals {
  stores = { for id, store in var.stores : id => store if var.store_ids == null ? true : contains(var.store_ids, id) }

  # ECS hands texts over as variables, and sparklog takes files. TMPDIR is for runs on other machines.
  command = <<-SH
    set -eu
    umask 077
    files="$${TMPDIR:-/tmp}/sparklog"
    mkdir -p "$files"
    if [ -n "$${CA_CERTIFICATE:-}" ]; then
      printf '%s\n' "$CA_CERTIFICATE" > "$files/ca.crt"
      export SPARKLOG_CA="$files/ca.crt"
    fi
    if [ -n "$${CONFIG_FILE:-}" ]; then
      printf '%s\n' "$CONFIG_FILE" > "$files/sparklog.toml"
      export SPARKLOG_CONFIG="$files/sparklog.toml"
    fi
    exec sparklog agent --store "$STORE"
  SH

  environment = merge(
    {
      AWS_REGION       = var.region
      SPARKLOG_CLUSTER = var.cluster
    },
    var.ca_pem == null ? {} : { CA_CERTIFICATE = var.ca_pem },
    var.config == null ? {} : { CONFIG_FILE = var.config },
  )

  secrets = var.token_secret_arn == null ? {} : { SPARKLOG_TOKEN = var.token_secret_arn }
}

resource "aws_ecs_task_definition" "this" {
  for_each = local.stores

  family                   = "${var.name}-agent-${replace(each.key, ".", "_")}"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory_mib
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = var.task_role_arn
  skip_destroy             = true # ECS returns to the old revision if the new one does not become healthy
  tags                     = merge(var.tags, { "sparklog:store" = each.key })

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = "X86_64"
  }

  volume {
    name = "scratch"
  }

  # No health check: an agent serves nothing, and ends if it can't continue. Coordinators miss its heartbeats.
  container_definitions = jsonencode([{
    name                   = "agent"
    image                  = var.image
    essential              = true
    user                   = "10001:10001"
    readonlyRootFilesystem = true
    entryPoint             = ["/bin/sh", "-c"]
    command                = [local.command]
    environment = [
      for key, value in merge(
        local.environment,
        { STORE = each.key },
        each.value.zone == null ? {} : { SPARKLOG_ZONE = each.value.zone },
      ) : { name = key, value = value }
    ]
    secrets         = [for key, value in local.secrets : { name = key, valueFrom = value }]
    mountPoints     = [{ sourceVolume = "scratch", containerPath = "/tmp", readOnly = false }]
    stopTimeout     = 30
    linuxParameters = { initProcessEnabled = true, capabilities = { add = [], drop = ["ALL"] } }
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = var.log_group.name
        awslogs-region        = var.region
        awslogs-stream-prefix = each.key
        mode                  = "non-blocking"
        max-buffer-size       = "25m"
      }
    }
  }])
}

resource "aws_ecs_service" "this" {
  for_each = local.stores

  name                               = "${var.name}-agent-${replace(each.key, ".", "_")}"
  cluster                            = var.ecs_cluster_arn
  task_definition                    = aws_ecs_task_definition.this[each.key].arn
  launch_type                        = "FARGATE"
  platform_version                   = "LATEST"
  desired_count                      = var.running ? 1 : 0
  deployment_minimum_healthy_percent = 0 # a store has one agent: the old one ends before the new one starts
  deployment_maximum_percent         = 100
  availability_zone_rebalancing      = "DISABLED"
  enable_execute_command             = false
  propagate_tags                     = "SERVICE"
  wait_for_steady_state              = var.wait_for_steady_state
  tags                               = merge(var.tags, { "sparklog:store" = each.key })

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = var.security_group_ids
    assign_public_ip = false
  }

  depends_on = [aws_iam_role_policy.execution]

  # The circuit breaker returns to the old task definition, which is a steady state as well: it must not pass for success.
  lifecycle {
    postcondition {
      condition     = self.task_definition == aws_ecs_task_definition.this[each.key].arn
      error_message = "The agent of ${each.key} did not become healthy with the new task definition, so ECS returned to the old one."
    }
  }
}
