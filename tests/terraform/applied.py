"""An example applied to the emulators, and what is done with it as AWS would do it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.terraform.deployment import Deployment, Resource, applied, be_offline
from tests.terraform.emulators import Account, account
from tests.terraform.inputs import of_example
from tests.terraform.inventory import inventory
from tests.terraform.program import Workspace
from tests.terraform.trees import copy_tree, example

REGION: Final = "eu-central-1"
# What the emulators answer otherwise than AWS: attributes that a second plan would change, by type of resource.
FALSE_DIFFERENCES: Final[dict[str, set[str]]] = {
    "aws_cloudwatch_metric_alarm": {  # it tells the provider no more than the name
        *("actions_enabled", "alarm_actions", "alarm_description", "comparison_operator", "datapoints_to_alarm"),
        *("dimensions", "evaluation_periods", "metric_name", "metric_query", "namespace", "ok_actions", "period"),
        *("statistic", "threshold", "treat_missing_data"),
    },
    "aws_ecs_service": {"availability_zone_rebalancing"},
    "aws_emrserverless_application": {"architecture"},
    "aws_s3_object": {"tags_all"},  # of an object that was uploaded in parts
    "aws_vpc_endpoint": {"private_dns_enabled", "security_group_ids"},
}
# For an account that is thrown away.
_FOR_TRIALS: Final = {
    "minimal": {"force_destroy": True},
    "complete": {"force_destroy": True, "wait_for_steady_state": False, "secret_recovery_days": 0},
}


@dataclass
class Applied:
    """An applied example."""

    workspace: Workspace
    account: Account
    variables: dict[str, Any]
    before: dict[str, set[str]]
    outputs: dict[str, Any] = field(default_factory=dict)
    deployment: Deployment = field(default_factory=lambda: Deployment((), {}))

    def apply(self) -> None:
        self._change("apply")
        self.outputs = self.workspace.outputs()
        found = applied(self.workspace.state())
        # MiniStack tells the provider nothing of an alarm but its name. Plans have them whole.
        known = tuple(each for each in found.resources if each.type != "aws_cloudwatch_metric_alarm")
        self.deployment = Deployment(known, found.outputs)

    def destroy(self) -> None:
        self._change("destroy")

    def differences(self) -> list[str]:
        """What a second plan would change, but for what the emulators answer otherwise than AWS."""
        changes = self.workspace.plan(self.variables)["resource_changes"]
        return [
            f"{each['address']} {sorted(changed)}"
            for each in changes
            if each["change"]["actions"] not in (["no-op"], ["read"])
            and (changed := _changed(each["change"]) - FALSE_DIFFERENCES.get(each["type"], set()))
        ]

    def schedules(self) -> dict[str, Resource]:
        """The schedules by the names of their jobs."""
        return {each.values["name"]: each for each in self.deployment.of("aws_scheduler_schedule")}

    def target_input(self, schedule: str) -> dict[str, Any]:
        """What the scheduler has as the input of a schedule's target."""
        group = self.schedules()[schedule].values["group_name"]
        client = self.account.client("scheduler", REGION)
        try:
            return dict(json.loads(client.get_schedule(Name=schedule, GroupName=group)["Target"]["Input"]))
        finally:
            client.close()

    def containers(self) -> dict[str, dict[str, Any]]:
        """The container of each task definition by its family, as ECS has it."""
        client = self.account.client("ecs", REGION)
        try:
            found = {}
            for each in self.deployment.of("aws_ecs_task_definition"):
                family = each.values["family"]
                definition = client.describe_task_definition(taskDefinition=family)["taskDefinition"]
                (found[family],) = definition["containerDefinitions"]
            return found
        finally:
            client.close()

    def put_secret(self, name: str, value: str) -> None:
        client = self.account.client("secretsmanager", REGION)
        try:
            client.put_secret_value(SecretId=name, SecretString=value)
        finally:
            client.close()

    def secret(self, reference: str) -> str:
        """The value that a reference of a task definition or a Spark setting names: NAME, ARN or ARN:KEY::."""
        name, key = reference, ""
        if reference.endswith("::"):
            name, _, key = reference.removesuffix("::").rpartition(":")
        client = self.account.client("secretsmanager", REGION)
        try:
            value = client.get_secret_value(SecretId=name)["SecretString"]
        finally:
            client.close()
        return str(json.loads(value)[key] if key else value)

    def fetch(self, url: str, target: Path) -> Path:
        """Download s3://bucket/key into a folder."""
        bucket, _, key = url.removeprefix("s3://").partition("/")
        client = self.account.client("s3", REGION)
        try:
            body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        finally:
            client.close()
        file = target / key.rpartition("/")[2]
        file.write_bytes(body)
        return file

    def inventory(self) -> dict[str, set[str]]:
        return inventory(self.account, REGION)

    def _change(self, how: str) -> None:
        options = ("-auto-approve", "-input=false", "-no-color", "-parallelism=30")
        self.workspace.run(how, *options, *self.workspace.given(self.variables))


@contextmanager
def applied_example(name: str, folder: Path, dist: Path, **variables: Any) -> Iterator[Applied]:
    """An example in an account of its own, which ends with the `with`."""
    workspace = example(copy_tree(folder), name)
    workspace.init()
    with account() as own:
        be_offline(workspace, own)
        given = {**of_example(name, dist), **_FOR_TRIALS[name], **variables}
        made = Applied(workspace, own, given, inventory(own, REGION))
        made.apply()
        yield made


def _changed(change: dict[str, Any]) -> set[str]:
    before, after, unknown = (change[key] or {} for key in ("before", "after", "after_unknown"))
    return {key for key in {*before, *after} if before.get(key) != after.get(key) and not unknown.get(key)} or {"all"}
