# A task for the commands of an operator: it runs in the VPC, where the coordinators are, with the operator's token and
# role. Nothing starts it by itself; the output operator_function does.
locals {
  # "$@" is the command of the task, which run-task overrides: cluster health, for example.
  operator_command = <<-SH
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
    exec sparklog "$@"
  SH

  operator_environment = merge(
    {
      AWS_REGION       = var.region
      SPARKLOG_CLUSTER = local.url
    },
    try(var.operator.ca_pem, null) == null ? {} : { CA_CERTIFICATE = var.operator.ca_pem },
    var.config == null ? {} : { CONFIG_FILE = var.config },
  )

  operator_network = var.operator == null ? "" : join("", [
    "awsvpcConfiguration={subnets=[${join(",", var.subnet_ids)}],",
    "securityGroups=[${join(",", var.operator.security_group_ids)}],assignPublicIp=DISABLED}",
  ])

  operator_function = var.operator == null ? null : <<-SH
    sparklog_inside() {
      task=$(aws ecs run-task --region ${var.region} --cluster ${var.name} --launch-type FARGATE \
        --task-definition ${var.name}-operator --network-configuration '${local.operator_network}' \
        --overrides "$(printf '%s\n' "$@" | jq -Rnc '{containerOverrides: [{name: "operator", command: [inputs]}]}')" \
        --query 'tasks[0].taskArn' --output text) || return
      while
        seen=$(aws ecs describe-tasks --region ${var.region} --cluster ${var.name} --tasks "$task" \
          --query 'tasks[0].[lastStatus,containers[0].exitCode,stoppedReason]' --output text) || return
        [ "$(printf %s "$seen" | cut -f 1)" != STOPPED ]
      do sleep 5; done
      aws logs filter-log-events --region ${var.region} --log-group-name ${var.log_group.name} \
        --log-stream-names "operator/operator/$${task##*/}" --query 'events[].[message]' --output text
      code=$(printf %s "$seen" | cut -f 2)
      if [ "$code" = None ]; then # it never started
        printf '%s\n' "$seen" >&2
        return 1
      fi
      return "$code"
    }
  SH
}

resource "aws_ecs_task_definition" "operator" {
  count = var.operator == null ? 0 : 1

  family                   = "${var.name}-operator"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu # a restore holds the state of the cluster, as a coordinator does
  memory                   = var.memory_mib
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = var.operator.task_role_arn
  tags                     = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = "X86_64"
  }

  volume {
    name = "scratch"
  }

  container_definitions = jsonencode([{
    name                   = "operator"
    image                  = var.image
    essential              = true
    user                   = "10001:10001"
    readonlyRootFilesystem = true
    entryPoint             = ["/bin/sh", "-c", local.operator_command, "sparklog"]
    command                = ["cluster", "health"]
    environment            = [for key, value in local.operator_environment : { name = key, value = value }]
    secrets                = [{ name = "SPARKLOG_TOKEN", valueFrom = var.operator.token_secret_arn }]
    mountPoints            = [{ sourceVolume = "scratch", containerPath = "/tmp", readOnly = false }]
    stopTimeout            = 30
    linuxParameters        = { initProcessEnabled = true, capabilities = { add = [], drop = ["ALL"] } }
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = var.log_group.name
        awslogs-region        = var.region
        awslogs-stream-prefix = "operator"
        mode                  = "blocking" # no line of a command's output may be lost
      }
    }
  }])
}
