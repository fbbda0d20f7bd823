"""What an example would make, with every value known: its plan, completed by an apply with a mocked provider.

A plan leaves open what AWS would choose, as the ARN of a key, and each policy that names it. `terraform test` applies
with a provider that makes such values up; ids and ARNs are given here, so that they look like AWS's and all differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.terraform.emulators import ACCOUNT_ID, Account
from tests.terraform.program import TerraformFailed, Workspace
from tests.terraform.trees import blocks

_MOCK_FILE: Final = "check-made-up.tftest.hcl"
_OVERRIDE_FILE: Final = "check_override.tf"
_CHECKS: Final = ("credentials_validation", "metadata_api_check", "region_validation")
# Service and kind in the ARN of a type of resource, where the first word of its name does not say it.
_ARNS: Final = {
    "aws_iam_role": "arn:aws:iam::{account}:role/{name}",
    "aws_iam_policy": "arn:aws:iam::{account}:policy/{name}",
    "aws_kms_key": "arn:aws:kms:{region}:{account}:key/{name}",
    "aws_s3_bucket": "arn:aws:s3:::{name}",
    "aws_cloudwatch_log_group": "arn:aws:logs:{region}:{account}:log-group:{name}",
    "aws_secretsmanager_secret": "arn:aws:secretsmanager:{region}:{account}:secret:{name}",
    "aws_sqs_queue": "arn:aws:sqs:{region}:{account}:{name}",
    "aws_sns_topic": "arn:aws:sns:{region}:{account}:{name}",
    "aws_lb": "arn:aws:elasticloadbalancing:{region}:{account}:loadbalancer/net/{name}",
    "aws_lb_target_group": "arn:aws:elasticloadbalancing:{region}:{account}:targetgroup/{name}",
    "aws_emrserverless_application": "arn:aws:emr-serverless:{region}:{account}:/applications/{name}",
}


@dataclass(frozen=True)
class Resource:
    """One resource: its address, and the values of its arguments and attributes."""

    address: str
    type: str
    values: Mapping[str, Any]

    def document(self, attribute: str) -> Any:
        """An attribute that holds JSON."""
        return json.loads(self.values[attribute])


@dataclass(frozen=True)
class Deployment:
    """All resources and outputs of one example."""

    resources: tuple[Resource, ...]
    outputs: Mapping[str, Any]

    def of(self, *types: str) -> list[Resource]:
        return [each for each in self.resources if each.type in types]


def applied(state: Mapping[str, Any]) -> Deployment:
    """What a state says, as `terraform show -json` gives it."""
    values = state["values"]
    return Deployment(tuple(_resources(values["root_module"])), _outputs(values))


def planned(workspace: Workspace, variables: Mapping[str, Any]) -> Deployment:
    """What would be applied. Raises TerraformFailed."""
    plan = workspace.plan(variables)
    changes = {each["address"]: each["change"] for each in plan["resource_changes"] if each["mode"] == "managed"}
    unknown_arns = [address for address, change in changes.items() if change["after_unknown"].get("arn")]
    state = _made_up(workspace, variables, unknown_arns)
    resources = [
        Resource(
            each.address,
            each.type,
            _completed(changes[each.address]["after"], changes[each.address]["after_unknown"], each.values),
        )
        for each in _resources(state["root_module"])
    ]
    return Deployment(tuple(resources), _outputs(state))


def resembling(other: Deployment, workspace: Workspace, variables: Mapping[str, Any]) -> Deployment:
    """The same in half the time, without a plan, for a configuration that differs a little from another one.

    Defaults that the provider alone knows are made up, too. Raises TerraformFailed.
    """
    unknown_arns = [each.address for each in other.resources if each.values.get("arn") == _arn(each.address)]
    state = _made_up(workspace, variables, unknown_arns)
    return Deployment(tuple(_resources(state["root_module"])), _outputs(state))


def be_offline(workspace: Workspace, account: Account | None = None) -> None:
    """Give each provider of a configuration keys that open nothing, and the addresses of an account on this machine."""
    lines = []
    for name, body in blocks(workspace.folder, "provider"):
        lines += [
            f'provider "{name}" {{',
            *([f"  alias = {body['alias']}"] if "alias" in body else []),
            *('  access_key = "test-access-key"', '  secret_key = "test-secret-key"'),
            *(f"  skip_{check} = true" for check in _CHECKS),
            *(_addresses(account) if account else ["  skip_requesting_account_id = true"]),
            "}",
        ]
    (workspace.folder / _OVERRIDE_FILE).write_text("\n".join(lines) + "\n")


def _addresses(account: Account) -> list[str]:
    addresses = [f'    {service} = "{url}"' for service, url in account.endpoints.items()]
    return ["  s3_use_path_style = true", "  endpoints {", *addresses, "  }"]


def _made_up(workspace: Workspace, variables: Mapping[str, Any], unknown_arns: Iterable[str]) -> dict[str, Any]:
    """The state after an apply with a mocked provider."""
    lines = []
    for name, body in blocks(workspace.folder, "provider"):
        lines += [f'mock_provider "{name}" {{', *([f"  alias = {body['alias']}"] if "alias" in body else []), "}"]
    for address in unknown_arns:
        values = f'{{ arn = "{_arn(address)}" }}'
        lines += ["override_resource {", f"  target = {address}", f"  values = {values}", "}"]
    lines += ['run "all" {', "  command = apply", "}"]
    folder = workspace.folder / "check"
    folder.mkdir(exist_ok=True)
    (folder / _MOCK_FILE).write_text("\n".join(lines) + "\n")
    options = ("-json", "-verbose", f"-test-directory={folder.name}", *workspace.given(variables))
    done = workspace.run("test", *options, may_fail=True)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        wrong = [json.dumps(each["diagnostic"]) for each in messages if "diagnostic" in each]
        raise TerraformFailed("\n".join(wrong) or done.stdout + done.stderr)
    (state,) = (each["test_state"] for each in messages if "test_state" in each)
    return dict(state)


def _arn(address: str) -> str:
    kind = re.sub(r"\[.*?\]", "", address).split(".")[-2]
    name = re.sub(r"[^a-zA-Z0-9]+", "-", address).strip("-")
    pattern = _ARNS.get(kind, f"arn:aws:{kind.split('_')[1]}:{{region}}:{{account}}:{kind.split('_')[-1]}/{{name}}")
    return pattern.format(region="eu-central-1", account=ACCOUNT_ID, name=name)


def _resources(module: Mapping[str, Any]) -> Iterator[Resource]:
    for each in module.get("resources", ()):
        if each["mode"] == "managed":
            yield Resource(each["address"], each["type"], each["values"])
    for child in module.get("child_modules", ()):
        yield from _resources(child)


def _outputs(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each.get("value") for name, each in values.get("outputs", {}).items()}


def _completed(known: Any, unknown: Any, made: Any) -> Any:
    """The planned value, and where it is not known yet the one made up."""
    if unknown is True:
        return made
    if isinstance(unknown, dict) and isinstance(made, dict):
        return {
            key: _completed((known or {}).get(key), unknown.get(key), made.get(key))
            for key in {**(known or {}), **unknown}
        }
    if isinstance(unknown, list) and isinstance(made, list) and len(unknown) == len(made):
        return [
            _completed(known[place] if known and place < len(known) else None, unknown[place], made[place])
            for place in range(len(unknown))
        ]
    return known
