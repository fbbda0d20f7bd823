"""The policies of terraform/modules/iam for three stores, as Terraform renders them: a plan, and no account."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.terraform.program import Workspace
from tests.terraform.rights.iam_policy import Policy
from tests.terraform.rights.role_processes import PREFIX

IAM = Path(__file__).parents[3] / "terraform" / "modules" / "iam"
REGION = "eu-central-1"
KEY_ARN = f"arn:aws:kms:{REGION}:111122223333:key/00000000-0000-0000-0000-000000000000"
STORES = "abc"


def bucket_arn(store: str) -> str:
    """In the policies and requests of these tests, a bucket has the name of its store."""
    return f"arn:aws:s3:::store-{store}"


# What the module is given in each phase of the runs.
PHASES: Mapping[str, Mapping[str, Any]] = {
    "embedded": {"metadata_store": "a", "embedded": True},
    "coordinated": {"metadata_store": "a"},
    "restored": {"metadata_store": "b"},
}

Policies = Mapping[str, Mapping[str, Policy]]  # by phase and role


def rendered_policies(folder: Path, iam: Path = IAM) -> Policies:
    """The policies of a module iam, which may be a changed copy. Raises Missing without Terraform."""
    (folder / "main.tf.json").write_text(json.dumps(configuration(iam)))
    workspace = Workspace(folder)
    workspace.init()
    outputs = workspace.plan({})["planned_values"]["outputs"]
    return {phase: {role: Policy.of_json(text) for role, text in outputs[phase]["value"].items()} for phase in PHASES}


def configuration(iam: Path) -> dict[str, Any]:
    """The module once for each phase."""
    stores = {
        store: {"bucket_arn": bucket_arn(store), "prefix": PREFIX, "kms_key_arn": KEY_ARN, "region": REGION}
        for store in STORES
    }
    fake = dict.fromkeys(("skip_credentials_validation", "skip_requesting_account_id", "skip_metadata_api_check"), True)
    return {
        "provider": {"aws": {"region": REGION, "access_key": "none", "secret_key": "none", **fake}},
        "module": {
            phase: {"source": str(iam), "name": "test", "stores": stores, **given} for phase, given in PHASES.items()
        },
        "output": {phase: {"value": f"${{module.{phase}.policy_json}}"} for phase in PHASES},
    }
