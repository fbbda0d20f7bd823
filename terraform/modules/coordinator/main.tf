# A service for each coordinator, not one service of several tasks: clients ask the coordinator that leads by its own
# address, so each needs a fixed one: a listener of the load balancer.
locals {
  port = 7400

  coordinators = {
    for number in range(var.coordinators) : tostring(number) => {
      port      = local.port + number
      advertise = "https://${var.dns_name}:${local.port + number}"
      subnet_id = var.subnet_ids[number % length(var.subnet_ids)]
    }
  }

  url = join(",", [for number in range(var.coordinators) : local.coordinators[tostring(number)].advertise])

  # ECS hands secrets over as variables, and sparklog takes files. TMPDIR is for runs on other machines.
  command = <<-SH
    set -eu
    umask 077
    files="$${TMPDIR:-/tmp}/sparklog"
    mkdir -p "$files"
    printf '%s\n' "$TLS_CERTIFICATE" > "$files/tls.crt"
    printf '%s\n' "$TLS_PRIVATE_KEY" > "$files/tls.key"
    printf '%s\n' "$ACCESS_FILE" > "$files/access.toml"
    if [ -n "$${CONFIG_FILE:-}" ]; then
      printf '%s\n' "$CONFIG_FILE" > "$files/sparklog.toml"
      export SPARKLOG_CONFIG="$files/sparklog.toml"
    fi
    unset TLS_CERTIFICATE TLS_PRIVATE_KEY ACCESS_FILE CONFIG_FILE
    exec sparklog coordinator --tls-certificate "$files/tls.crt" --tls-key "$files/tls.key" --access "$files/access.toml"
  SH

  environment = merge(
    {
      AWS_REGION           = var.region
      SPARKLOG_CLUSTER     = var.metadata_url
      SPARKLOG_LISTEN      = "0.0.0.0:${local.port}"
      SPARKLOG_JOB_COMMAND = "none" # the module schedules starts the jobs
    },
    var.emf_namespace == null ? {} : { SPARKLOG_EMF_NAMESPACE = var.emf_namespace },
    var.config == null ? {} : { CONFIG_FILE = var.config },
  )

  secrets = {
    TLS_CERTIFICATE = "${var.tls_secret_arn}:certificate::"
    TLS_PRIVATE_KEY = "${var.tls_secret_arn}:private_key::"
    ACCESS_FILE     = var.access_secret_arn
  }
}

# Container Insights would make it without a key, keep it for ever, and leave it behind.
resource "aws_cloudwatch_log_group" "insights" {
  #checkov:skip=CKV_AWS_158:it has the key of the log group of the coordinators
  #checkov:skip=CKV_AWS_338:it is kept as long as the log of the coordinators
  name              = "/aws/ecs/containerinsights/${var.name}/performance"
  retention_in_days = var.log_group.retention_days
  kms_key_id        = var.log_group.kms_key_arn
  tags              = var.tags
}

resource "aws_ecs_cluster" "this" {
  name = var.name
  tags = var.tags

  setting {
    name  = "containerInsights"
    value = "enabled"
  }

  depends_on = [aws_cloudwatch_log_group.insights]
}

resource "aws_ecs_task_definition" "this" {
  for_each = local.coordinators

  family                   = "${var.name}-coordinator-${each.key}"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory_mib
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = var.task_role_arn
  skip_destroy             = true # ECS returns to the old revision if the new one does not become healthy
  tags                     = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = "X86_64"
  }

  volume {
    name = "scratch"
  }

  container_definitions = jsonencode([{
    name                   = "coordinator"
    image                  = var.image
    essential              = true
    user                   = "10001:10001"
    readonlyRootFilesystem = true
    entryPoint             = ["/bin/sh", "-c"]
    command                = [local.command]
    environment            = [for key, value in merge(local.environment, { SPARKLOG_ADVERTISE = each.value.advertise }) : { name = key, value = value }]
    secrets                = [for key, value in local.secrets : { name = key, valueFrom = value }]
    portMappings           = [{ containerPort = local.port, hostPort = local.port, protocol = "tcp" }]
    mountPoints            = [{ sourceVolume = "scratch", containerPath = "/tmp", readOnly = false }]
    stopTimeout            = 30 # SIGTERM: it resigns, so that another one leads at once
    linuxParameters        = { initProcessEnabled = true, capabilities = { add = [], drop = ["ALL"] } }
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = var.log_group.name
        awslogs-region        = var.region
        awslogs-stream-prefix = each.key
        mode                  = "non-blocking" # a log that can't be written must not hold up commits
        max-buffer-size       = "25m"
      }
    }
  }])
}

resource "aws_ecs_service" "this" {
  for_each = local.coordinators

  name                               = "${var.name}-coordinator-${each.key}"
  cluster                            = aws_ecs_cluster.this.id
  task_definition                    = aws_ecs_task_definition.this[each.key].arn
  launch_type                        = "FARGATE"
  platform_version                   = "LATEST"
  desired_count                      = var.running ? 1 : 0
  deployment_minimum_healthy_percent = 0 # the old one resigns before the new one starts: another one leads meanwhile
  deployment_maximum_percent         = 100
  availability_zone_rebalancing      = "DISABLED"
  health_check_grace_period_seconds  = 300 # a long chain is read first
  enable_execute_command             = false
  propagate_tags                     = "SERVICE"
  wait_for_steady_state              = var.wait_for_steady_state
  tags                               = var.tags

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = [each.value.subnet_id]
    security_groups  = var.security_group_ids
    assign_public_ip = false
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.this[each.key].arn
    container_name   = "coordinator"
    container_port   = local.port
  }

  depends_on = [aws_lb_listener.this, aws_iam_role_policy.execution]

  # The circuit breaker returns to the old task definition, which is a steady state as well: it must not pass for success.
  lifecycle {
    postcondition {
      condition     = self.task_definition == aws_ecs_task_definition.this[each.key].arn
      error_message = "Coordinator ${each.key} did not become healthy with the new task definition, so ECS returned to the old one."
    }
  }
}
