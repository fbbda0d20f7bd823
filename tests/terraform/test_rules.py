"""Each example keeps every rule: judged by its plan, completed by an apply with a mocked provider."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.terraform.deployment import Deployment, be_offline, planned
from tests.terraform.inputs import empty_dist, of_example
from tests.terraform.program import TerraformFailed
from tests.terraform.rules.rules import RULES
from tests.terraform.trees import EXAMPLES, example

pytestmark = [pytest.mark.campaign, pytest.mark.slow, pytest.mark.usefixtures("has_provider")]


@pytest.fixture(scope="module")
def deployment_of(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Deployment]:
    dist = empty_dist(tmp_path_factory.mktemp("dist"))

    @cache  # a failure, too: else each rule would plan again
    def outcome(name: str) -> Deployment | TerraformFailed:
        workspace = example(tree, name)
        workspace.init()
        be_offline(workspace)
        try:
            return planned(workspace, of_example(name, dist))
        except TerraformFailed as failed:
            return failed

    def of(name: str) -> Deployment:
        found = outcome(name)
        if isinstance(found, TerraformFailed):
            raise found
        return found

    return of


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_keeps_the_rule(name: str, rule: str, deployment_of: Callable[[str], Deployment]) -> None:
    assert RULES[rule](deployment_of(name)) == []


def test_the_largest_example_has_all_that_the_rules_judge(deployment_of: Callable[[str], Deployment]) -> None:
    made = {each.type for each in deployment_of("complete").resources}
    assert made >= {
        *("aws_s3_bucket", "aws_kms_key", "aws_iam_role", "aws_vpc", "aws_vpc_endpoint", "aws_lb", "aws_ecs_service"),
        *("aws_ecr_repository", "aws_emrserverless_application", "aws_scheduler_schedule", "aws_sqs_queue"),
        *("aws_sns_topic", "aws_cloudwatch_log_group", "aws_cloudwatch_metric_alarm", "aws_cloudwatch_dashboard"),
        *("aws_secretsmanager_secret", "aws_vpc_security_group_ingress_rule"),
    }
