"""Variables for each example, as somebody would give them, and a folder in the place of dist/ for plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.terraform.emulators import ACCOUNT_ID

_SECRETS: Final = f"arn:aws:secretsmanager:eu-central-1:{ACCOUNT_ID}:secret:mine"
_GIVEN_SECRETS: Final = {
    "tls_secret_arn": f"{_SECRETS}-tls-abcdef",
    "access_secret_arn": f"{_SECRETS}-access-abcdef",
    "token_secret": {"arn": f"{_SECRETS}-token-abcdef", "name": "mine-token"},
    "secret_key_arns": [f"arn:aws:kms:eu-central-1:{ACCOUNT_ID}:key/mine-secrets"],
}
_IMAGE: Final = f"{ACCOUNT_ID}.dkr.ecr.eu-central-1.amazonaws.com/sparklog:0.1.0"
_SOMEBODY: Final = [f"arn:aws:iam::{ACCOUNT_ID}:role/somebody"]
_TRUSTED: Final = {role: {"arns": _SOMEBODY} for role in ("producer", "consumer", "operator")}

OF_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "minimal": {"client_arns": _SOMEBODY, "emails": ["oncall@example.org"]},
    "complete": {
        "producer_arns": _SOMEBODY,
        "consumer_arns": _SOMEBODY,
        "operator_arns": _SOMEBODY,
        "dns_zone": "mine.example.org",
        "image_tag": "0.1.0",
    },
    "existing-vpc": {
        **_GIVEN_SECRETS,
        "vpc_id": "vpc-0a1b2c3d",
        "subnet_ids": ["subnet-0a1b2c3d", "subnet-0b1b2c3d"],
        "s3_prefix_list_id": "pl-0a1b2c3d",
        "endpoint_cidrs": ["10.0.0.0/16"],
        "image": _IMAGE,
        "dns_name": "log.example.org",
        "hosted_zone_id": "Z0123456789",
        "trusted": _TRUSTED,
    },
    "two-regions": {**_GIVEN_SECRETS, "image": _IMAGE, "dns_name": "log.example.org", "trusted": _TRUSTED},
}


def of_example(name: str, dist: Path) -> dict[str, Any]:
    """Its variables, for a cluster that is set up: everything runs."""
    return {"name": "mine", "account_id": ACCOUNT_ID, "dist_dir": str(dist), "running": True, **OF_EXAMPLES[name]}


def empty_dist(folder: Path) -> Path:
    """A folder like dist/, with empty files: enough for a plan."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sparklog-environment-0.1.0-cp311-linux_x86_64.tar.gz").touch()
    return folder
