"""The mutations of terraform/ that `make tf-check` must notice, each by the check that it names."""

from __future__ import annotations

from typing import Final

from tests.terraform.mutation import Mutation
from tests.terraform.mutations_of_wiring import OF_WIRING

_STORAGE: Final = "modules/storage/main.tf"
_SECURITY: Final = "modules/network/security.tf"
_COORDINATOR: Final = "modules/coordinator/main.tf"
_LOAD_BALANCER: Final = "modules/coordinator/load_balancer.tf"
_SCHEDULES: Final = "modules/schedules/main.tf"

MUTATIONS: Final[tuple[Mutation, ...]] = (
    Mutation(
        "wildcard-principal",
        "Anybody may take the role of the coordinators' start.",
        "modules/coordinator/execution_role.tf",
        'Principal = { Service = "ecs-tasks.amazonaws.com" }',
        'Principal = { AWS = "*" }',
        "no_policy_lets_anybody_in",
    ),
    Mutation(
        "wildcard-action",
        "A role of the stores may do everything to objects.",
        "modules/iam/main.tf",
        'put     = ["s3:PutObject"]',
        'put     = ["s3:*"]',
        "no_role_has_a_wide_right",
    ),
    Mutation(
        "wildcard-resource",
        "What starts agents reads every secret of the account.",
        "modules/agents/execution_role.tf",
        "Resource = secrets",
        'Resource = ["*"]',
        "no_role_has_a_wide_right",
    ),
    Mutation(
        "producer-deletes",
        "A producer may delete records.",
        "modules/iam/main.tf",
        'abort   = ["s3:AbortMultipartUpload"]',
        'abort   = ["s3:AbortMultipartUpload", "s3:DeleteObject"]',
        "only_maintenance_deletes",
    ),
    Mutation(
        "key-without-condition",
        "Keys serve through any service, and directly.",
        "modules/iam/main.tf",
        """      Condition = { StringEquals = { "kms:ViaService" = distinct([""",
        """      Condition = { StringEquals = { "aws:RequestedRegion" = distinct([""",
        "rights_are_bound_by_conditions",
    ),
    Mutation(
        "service-of-any-account",
        "A schedule of another account takes the role that starts jobs.",
        _SCHEDULES,
        """      Condition = { StringEquals = { "aws:SourceArn" = aws_scheduler_schedule_group.this.arn } }
""",
        "",
        "services_act_for_this_account_only",
    ),
    Mutation(
        "pass-any-role",
        "EventBridge passes any role of the account on to a job.",
        _SCHEDULES,
        "Resource  = [var.job_role_arn]",
        'Resource  = ["arn:aws:iam::*:role/*"]',
        "rights_are_bound_by_conditions",
    ),
    Mutation(
        "open-port",
        "The coordinators' port is open to every address.",
        _SECURITY,
        """  description                  = "Commands and metadata"
  referenced_security_group_id = aws_security_group.clients.id
""",
        """  description                  = "Commands and metadata"
  cidr_ipv4                    = "0.0.0.0/0"
""",
        "no_port_is_open",
    ),
    Mutation(
        "all-ports",
        "Clients reach every port of the endpoints, by every protocol.",
        _SECURITY,
        """  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
""",
        """  referenced_security_group_id = each.value
  ip_protocol                  = "-1"
""",
        "no_port_is_open",
    ),
    Mutation(
        "public-load-balancer",
        "The load balancer has a public address.",
        _LOAD_BALANCER,
        "internal                         = true",
        "internal                         = false",
        "nothing_has_a_public_address",
    ),
    Mutation(
        "health-check-in-clear",
        "The health check asks a TLS port in clear, so no coordinator is ever healthy.",
        _LOAD_BALANCER,
        'protocol            = "HTTPS"',
        'protocol            = "HTTP"',
        "coordinators_are_reached_by_tls_only",
    ),
    Mutation(
        "plain-http-address",
        "Coordinators advertise an address without TLS.",
        _COORDINATOR,
        'advertise = "https://${var.dns_name}:${local.port + number}"',
        'advertise = "http://${var.dns_name}:${local.port + number}"',
        "https://HOST:PORT",
        check="plan",
    ),
    Mutation(
        "plain-http-bucket",
        "A bucket takes requests without TLS.",
        _STORAGE,
        'Condition = { Bool = { "aws:SecureTransport" = "false" } }',
        'Condition = { Bool = { "aws:SecureTransport" = "true" } }',
        "buckets_refuse_plain_http",
    ),
    Mutation(
        "public-bucket",
        "A policy may open a bucket to the public.",
        _STORAGE,
        "block_public_policy     = true",
        "block_public_policy     = false",
        "buckets_are_closed",
    ),
    Mutation(
        "log-expires",
        "S3 deletes the log after a while.",
        _STORAGE,
        "expired_object_delete_marker = true # a marker with no version behind it",
        "days = 30",
        "log_data_never_expires",
    ),
    Mutation(
        "task-with-execution-role",
        "A coordinator runs with the role that reads its secrets, and reaches no store.",
        _COORDINATOR,
        "task_role_arn            = var.task_role_arn",
        "task_role_arn            = aws_iam_role.execution.arn",
        "task_and_execution_roles_differ",
    ),
    Mutation(
        "writable-root",
        "A coordinator can change its own program.",
        _COORDINATOR,
        "readonlyRootFilesystem = true",
        "readonlyRootFilesystem = false",
        "containers_are_locked_down",
    ),
    Mutation(
        "token-in-environment",
        "The token of agents is in plain text in the task definition.",
        "modules/agents/main.tf",
        "      SPARKLOG_CLUSTER = var.cluster\n",
        '      SPARKLOG_CLUSTER = var.cluster\n      SPARKLOG_TOKEN   = "sparklog_0123456789abcdefghijklmn"\n',
        "secrets_are_not_in_the_environment",
    ),
    Mutation(
        "agents-at-the-chain",
        "Agents get the address of the metadata, which they must not reach.",
        "examples/complete/main.tf",
        "  cluster               = module.coordinator.url\n",
        "  cluster               = local.metadata_url\n",
        "only_coordinators_know_the_metadata",
    ),
    Mutation(
        "vacuum-at-the-coordinators",
        "Vacuum gets the address of the coordinators, where it can't delete old entries.",
        "modules/spark/main.tf",
        "? var.metadata_url : var.cluster",
        "? var.cluster : var.cluster",
        "jobs_have_the_right_cluster",
    ),
    Mutation(
        "shared-listener-port",
        "A listener is at another port than its coordinator advertises.",
        _LOAD_BALANCER,
        "port              = each.value.port",
        "port              = each.value.port + 1",
        "each_coordinator_has_its_own_address",
    ),
    Mutation(
        "no-dead-letters",
        "A start that fails is lost.",
        _SCHEDULES,
        """    dead_letter_config {
      arn = aws_sqs_queue.dead_letters.arn
    }
""",
        "",
        "schedules_keep_what_failed",
    ),
    Mutation(
        "job-not-scheduled",
        "Nothing deletes old records.",
        "modules/schedules/variables.tf",
        '    retention  = { expression = "rate(1 hour)", window_minutes = 15 }\n',
        "",
        "every_job_is_scheduled",
    ),
    Mutation(
        "unknown-metric",
        "An alarm watches a metric that no coordinator prints.",
        "modules/observability/alarms.tf",
        'metric      = "sparklog_offline_partitions"',
        'metric      = "sparklog_partitions_offline"',
        "alarms_watch_metrics_that_exist",
    ),
    Mutation(
        "wrong-dimension",
        "An alarm watches a metric by a label that it does not have.",
        "modules/observability/alarms.tf",
        'dimensions  = merge(local.of_cluster, { status = "5xx" })',
        'dimensions  = merge(local.of_cluster, { code = "5xx" })',
        "alarms_watch_metrics_that_exist",
    ),
    Mutation(
        "wrong-variable",
        "A module is called with a variable that it does not have.",
        "examples/complete/main.tf",
        "  dead_letter_queue = module.schedules.dead_letter_queue\n",
        "  dead_letters      = module.schedules.dead_letter_queue\n",
        "Unsupported argument",
        check="validate",
    ),
    Mutation(
        "one-coordinator",
        "One coordinator is enough for the module.",
        "modules/coordinator/variables.tf",
        "condition     = var.coordinators >= 2 && ",
        "condition     = var.coordinators >= 1 && ",
        "one_coordinator_is_refused",
        check="tests",
    ),
    *OF_WIRING,
)
