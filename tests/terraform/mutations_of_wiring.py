"""Mutations of what joins the parts: security groups, roles, secrets, keys, alarms, and the order of an upgrade."""

from __future__ import annotations

from typing import Final

from tests.terraform.mutation import Mutation

_SECURITY: Final = "modules/network/security.tf"
_LOAD_BALANCER: Final = "modules/coordinator/load_balancer.tf"
_OBSERVABILITY: Final = "modules/observability/main.tf"
_ALARMS: Final = "modules/observability/alarms.tf"
_COMPLETE: Final = "examples/complete/main.tf"

OF_WIRING: Final[tuple[Mutation, ...]] = (
    Mutation(
        "alarm-upside-down",
        "Partitions without a leader ring no alarm; none of them does.",
        _ALARMS,
        """      metric      = "sparklog_offline_partitions"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "GreaterThanThreshold"
""",
        """      metric      = "sparklog_offline_partitions"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "LessThanThreshold"
""",
        "what_matters_is_watched",
    ),
    Mutation(
        "alarm-that-never-rings",
        "The number of leaders would have to be below 0.",
        _ALARMS,
        """      metric      = "sparklog_active_controller"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "LessThanThreshold"
      threshold   = 1
""",
        """      metric      = "sparklog_active_controller"
      dimensions  = local.of_cluster
      statistic   = "Maximum"
      comparison  = "LessThanThreshold"
      threshold   = 0
""",
        "what_matters_is_watched",
    ),
    Mutation(
        "silent-without-tasks",
        "A coordinator without any task rings no alarm.",
        _ALARMS,
        '      missing     = "breaching"\n    } },\n',
        '      missing     = "notBreaching"\n    } },\n',
        "what_matters_is_watched",
    ),
    Mutation(
        "load-balancer-to-443",
        "The load balancer may not talk to the port of coordinators.",
        _SECURITY,
        """  referenced_security_group_id = aws_security_group.coordinators.id
  ip_protocol                  = "tcp"
  from_port                    = local.first_port
  to_port                      = local.last_port
""",
        """  referenced_security_group_id = aws_security_group.coordinators.id
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
""",
        "clients_reach_coordinators",
    ),
    Mutation(
        "coordinators-without-endpoints",
        "Coordinators may not talk to the endpoints.",
        _SECURITY,
        'resource "aws_vpc_security_group_egress_rule" "to_endpoints" {\n  for_each = local.callers\n',
        'resource "aws_vpc_security_group_egress_rule" "to_endpoints" {\n'
        "  for_each = { clients = local.callers.clients }\n",
        "processes_reach_aws",
    ),
    Mutation(
        "no-way-to-s3",
        "Nobody may talk to S3.",
        _SECURITY,
        "for_each = var.s3_endpoint || var.s3_prefix_list_id != null ? local.callers : {}",
        "for_each = var.s3_prefix_list_id != null ? local.callers : {}",
        "processes_reach_aws",
    ),
    Mutation(
        "no-names-of-endpoints",
        "The names of AWS services lead to their public addresses.",
        "modules/network/main.tf",
        "enable_dns_hostnames = true",
        "enable_dns_hostnames = false",
        "endpoints_are_found_by_name",
    ),
    Mutation(
        "healthy-if-broken",
        "A coordinator is healthy while it answers 500.",
        _LOAD_BALANCER,
        'matcher             = "200"',
        'matcher             = "500"',
        "health_checks_ask_the_coordinator",
    ),
    Mutation(
        "health-check-elsewhere",
        "The health check asks a port at which nobody listens.",
        _LOAD_BALANCER,
        'port                = "traffic-port"',
        'port                = "443"',
        "health_checks_ask_the_coordinator",
    ),
    Mutation(
        "coordinators-as-clients",
        "Coordinators are in the group of clients, which lets nobody in.",
        _COMPLETE,
        "security_group_ids               = [module.network.coordinator_security_group_id]",
        "security_group_ids               = [module.network.client_security_group_id]",
        "processes_have_their_own_groups",
    ),
    Mutation(
        "agents-as-producers",
        "Agents have the role of producers, and can't copy.",
        _COMPLETE,
        'task_role_arn         = module.iam.role_arns["agent"]',
        'task_role_arn         = module.iam.role_arns["producer"]',
        "tasks_have_the_role_of_their_name",
    ),
    Mutation(
        "secrets-that-stay-closed",
        "What starts agents may read their secret, and not decrypt it.",
        _COMPLETE,
        "secret_key_arns       = [aws_kms_key.secrets.arn]",
        "secret_key_arns       = []",
        "tasks_can_read_their_secrets",
    ),
    Mutation(
        "access-file-out-of-reach",
        "What starts coordinators may not read the access file.",
        "modules/coordinator/execution_role.tf",
        "concat([var.tls_secret_arn, var.access_secret_arn], ",
        "concat([var.tls_secret_arn], ",
        "tasks_can_read_their_secrets",
    ),
    Mutation(
        "agents-with-the-operators-token",
        "Agents may do what operators may.",
        _COMPLETE,
        'token_secret_arn      = aws_secretsmanager_secret.this["agent-token"].arn',
        'token_secret_arn      = aws_secretsmanager_secret.this["operator-token"].arn',
        "secrets_go_to_those_they_are_for",
    ),
    Mutation(
        "jobs-with-the-agents-token",
        "Jobs name the token of agents, which they can't read.",
        _COMPLETE,
        'name = aws_secretsmanager_secret.this["job-token"].name',
        'name = aws_secretsmanager_secret.this["agent-token"].name',
        "jobs_can_read_their_token",
    ),
    Mutation(
        "jobs-without-a-token",
        "Jobs name a secret that is not there.",
        "modules/spark/main.tf",
        '"EMR.secret@${var.token_secret.name}"',
        '"EMR.secret@no-token"',
        "jobs_can_read_their_token",
    ),
    Mutation(
        "service-that-is-none",
        "The key of logs is for a service that does not exist.",
        _OBSERVABILITY,
        '"logs.${var.region}.amazonaws.com"',
        '"log.${var.region}.amazonaws.com"',
        "services_are_let_in_for_what_they_do",
    ),
    Mutation(
        "alarms-that-nobody-hears",
        "CloudWatch may describe the key of the topic, and not use it.",
        _OBSERVABILITY,
        'cloudwatch.amazonaws.com" }\n        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]',
        'cloudwatch.amazonaws.com" }\n        Action    = ["kms:DescribeKey"]',
        "services_are_let_in_for_what_they_do",
    ),
    Mutation(
        "subscribe-for-publish",
        "CloudWatch may subscribe to the topic, and not publish.",
        _OBSERVABILITY,
        'Principal = { Service = "cloudwatch.amazonaws.com" }\n        Action    = ["sns:Publish"]',
        'Principal = { Service = "cloudwatch.amazonaws.com" }\n        Action    = ["sns:Subscribe"]',
        "services_are_let_in_for_what_they_do",
    ),
    Mutation(
        "events-by-account",
        "EventBridge may use the key for an account that it does not name to KMS.",
        _OBSERVABILITY,
        '"kms:EncryptionContext:aws:sns:topicArn" = local.topic_arn',
        '"aws:SourceAccount" = var.account_id',
        "services_are_let_in_for_what_they_do",
    ),
    Mutation(
        "key-without-container-insights",
        "CloudWatch Logs may not use the key for the log group of Container Insights.",
        _OBSERVABILITY,
        '          "${local.log_arn}:/aws/ecs/containerinsights/${var.name}/*",\n',
        "",
        "services_can_use_the_keys",
    ),
    Mutation(
        "insights-by-themselves",
        "Container Insights logs to a group that it makes, without a key and without an end.",
        "modules/coordinator/main.tf",
        '"/aws/ecs/containerinsights/${var.name}/performance"',
        '"/aws/ecs/containerinsights/${var.name}/other"',
        "logs_have_their_groups",
    ),
    Mutation(
        "cancelled-in-silence",
        "Nobody hears of a run that took too long.",
        _OBSERVABILITY,
        'state         = ["CANCELLED", "FAILED"]',
        'state         = ["FAILED"]',
        "failed_runs_are_told",
    ),
    Mutation(
        "key-without-a-name",
        "The key of the artefacts has no alias.",
        "modules/spark/artefacts.tf",
        "target_key_id = aws_kms_key.artefacts.key_id",
        'target_key_id = "another-key"',
        "keys_have_names",
    ),
    Mutation(
        "old-tls",
        "Stores take requests by TLS 1.0.",
        "modules/storage/main.tf",
        '"s3:TlsVersion" = "1.2"',
        '"s3:TlsVersion" = "1.0"',
        "buckets_refuse_plain_http",
    ),
    Mutation(
        "archive-replaced-in-place",
        "Executors that a running job gets later have another version than its driver.",
        "modules/spark/artefacts.tf",
        '"${substr(filesha256("${var.dist_dir}/${file}"), 0, 12)}/${basename(file)}" => file...',
        "basename(file) => file...",
        "an_archive_stays_while_runs_name_it",
        check="tests",
    ),
)
