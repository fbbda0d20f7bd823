"""An account that is not one: ministack, and moto for EMR Serverless, both on this machine and in memory only."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.servers.local_server import ATTEMPTS, LocalServer, free_port, running
from tests.servers.s3_servers import ACCESS_KEY_ID, SECRET_ACCESS_KEY

ACCOUNT_ID: Final = "123456789012"  # as moto has it
_ROOT: Final = Path(__file__).parents[2]
# What the provider calls a service, and what botocore does.
SERVICES: Final = {
    "cloudwatch": "cloudwatch",
    "ec2": "ec2",
    "ecr": "ecr",
    "ecs": "ecs",
    "events": "events",
    "elasticloadbalancingv2": "elbv2",
    "iam": "iam",
    "kms": "kms",
    "cloudwatchlogs": "logs",
    "route53": "route53",
    "s3": "s3",
    "scheduler": "scheduler",
    "secretsmanager": "secretsmanager",
    "sns": "sns",
    "sqs": "sqs",
    "sts": "sts",
}
_EMR: Final = "emrserverless"


@dataclass(frozen=True)
class Account:
    """Addresses of the two servers."""

    ministack: str
    moto: str

    @property
    def endpoints(self) -> dict[str, str]:
        """An address for each service, by the provider's name for it."""
        return {**dict.fromkeys(SERVICES, self.ministack), _EMR: self.moto}

    def client(self, service: str, region: str) -> Any:
        """A client of botocore: `service` is its name there."""
        import botocore.session

        return botocore.session.Session(profile=None).create_client(
            service,
            endpoint_url=self.moto if service == "emr-serverless" else self.ministack,
            region_name=region,
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=SECRET_ACCESS_KEY,
        )

    def variables(self, region: str) -> dict[str, str]:
        """The environment of a process that uses the stores of this account."""
        return {
            "AWS_ENDPOINT_URL": self.ministack,
            "AWS_REGION": region,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        }


@contextmanager
def account() -> Iterator[Account]:
    """Both servers, gone with the `with`."""
    with tempfile.TemporaryDirectory(prefix="sparklog-account-") as work, _ministack(work) as first, _moto(work) as emr:
        yield Account(first.endpoint_url, emr.endpoint_url)


@contextmanager
def _ministack(work: str) -> Iterator[LocalServer]:
    for _ in range(ATTEMPTS):
        port = free_port()
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "PYTHONPATH": str(_ROOT),
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "SERVICES": ",".join(SERVICES.values()),
            "MINISTACK_ACCOUNT_ID": ACCOUNT_ID,
            "LOG_LEVEL": "WARNING",
            # Further listeners and containers of it stay out.
            **{"SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0", "DOCKER_HOST": f"unix://{work}/no-docker"},
            **{"TMPDIR": work, "HOME": work},
        }
        command = [sys.executable, "-m", "tests.terraform.ministack_process"]
        with running(LocalServer, command, environment, port, Path(work, "ministack.log")) as server:
            if server is not None:
                yield server
                return
    raise RuntimeError("MiniStack did not start")


@contextmanager
def _moto(work: str) -> Iterator[LocalServer]:
    for _ in range(ATTEMPTS):
        port = free_port()
        command = [sys.executable, "-W", "ignore", "-m", "tests.terraform.emr_process", str(port)]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        with running(LocalServer, command, environment, port, Path(work, "moto.log")) as server:
            if server is not None:
                yield server
                return
    raise RuntimeError("Moto did not start")
