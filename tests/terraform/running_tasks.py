"""The tasks of an applied example as processes of this machine: coordinators behind TLS, and agents."""

from __future__ import annotations

import json
import os
import shlex
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.servers.certificates import Authority
from tests.servers.local_server import free_port
from tests.terraform.applied import REGION, Applied
from tests.terraform.as_ecs import container_process, variables_of

_RIGHTS: Final = {
    "operator-token": ("alter:*", "describe:*"),
    "loader": ("write:*", "describe:*"),
    "agent-token": ("maintain:*", "describe:*"),
    "job-token": ("maintain:*", "describe:*"),
}
_PATIENCE_S: Final = 180


@dataclass
class RunningTasks:
    """What runs. `url` is the cluster's address here; `mapped` says which of its parts are others in AWS."""

    applied: Applied
    url: str
    mapped: dict[str, str]
    ca: str
    tokens: dict[str, str]
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)

    @property
    def addresses(self) -> list[str]:
        return self.url.split(",")

    def variables(self, principal: str) -> dict[str, str]:
        """The environment of a client."""
        return {
            **self.applied.account.variables(REGION),
            "SPARKLOG_CLUSTER": self.url,
            "SPARKLOG_TOKEN": self.tokens[principal],
            "SPARKLOG_CA": self.ca,
        }

    def variables_of(self, container: Mapping[str, Any], mapped: Mapping[str, str]) -> dict[str, str]:
        """What ECS would give a container, with addresses of this machine, and the keys of this account."""
        given = variables_of(container, self.applied.secret, {**self.mapped, **mapped})
        return {**self.applied.account.variables(REGION), **given}

    def run(self, command: str, principal: str, text: str = "") -> str:
        """Run a command line of sparklog as this principal."""
        return run(command, self.variables(principal), text)

    def status(self, address: str, path: str) -> int:
        """The HTTP status of a route, asked over TLS; 0 if nothing answers."""
        context = ssl.create_default_context(cafile=self.ca)
        try:
            with urllib.request.urlopen(f"{address}{path}", timeout=10, context=context) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as answer:
            answer.close()
            return answer.code
        except OSError:
            return 0

    def wait_for(self, name: str, address: str, path: str) -> None:
        """Until this route of a task answers with 200."""
        until = time.monotonic() + _PATIENCE_S
        while self.status(address, path) != 200:
            output = self.folders[name] / "output"
            assert self.processes[name].poll() is None, output.read_text()
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.1)


def give_secrets(applied: Applied, authority: Authority, folder: Path) -> dict[str, str]:
    """Put a value into each secret, as the runbook says. Gives the tokens by principal."""
    access = folder / "access.toml"
    tokens = {}
    for name, rights in _RIGHTS.items():
        options = " ".join(f"--right {right}" for right in rights)
        tokens[name] = run(f"sparklog coordinator token {name} {options} --append {access}", {}).strip()
    issued = authority.issue("coordinator", hosts=("localhost",))
    certificate, key = Path(issued.certificate).read_text(), Path(issued.key).read_text()
    prefix = applied.variables["name"]
    applied.put_secret(f"{prefix}-tls", json.dumps({"certificate": certificate, "private_key": key}))
    applied.put_secret(f"{prefix}-access", access.read_text())
    for name in ("agent-token", "job-token", "operator-token"):
        applied.put_secret(f"{prefix}-{name}", tokens[name])
    return tokens


@contextmanager
def running_tasks(applied: Applied, authority: Authority, folder: Path) -> Iterator[RunningTasks]:
    """Every coordinator and every agent, from its task definition."""
    tokens = give_secrets(applied, authority, folder)
    url = applied.outputs["sparklog_cluster"]
    ports = {advertised: free_port() for advertised in url.split(",")}
    mapped = {advertised: f"https://localhost:{port}" for advertised, port in ports.items()}
    running = RunningTasks(applied, ",".join(mapped.values()), mapped, authority.file, tokens)
    containers = applied.containers()
    with ExitStack() as stack:
        for kind in ("coordinator", "agent"):
            for family, container in containers.items():
                if container["name"] == kind:
                    advertised = running.variables_of(container, {}).get("SPARKLOG_ADVERTISE", "")
                    port = urlsplit(advertised).port
                    variables = running.variables_of(container, {"0.0.0.0:7400": f"127.0.0.1:{port}"})
                    running.folders[family] = folder / family
                    process = container_process(container, variables, running.folders[family])
                    running.processes[family] = stack.enter_context(process)
                    if kind == "coordinator":
                        running.wait_for(family, advertised, "/readyz")
        yield running


def run(command: str, variables: dict[str, str], text: str = "") -> str:
    """The output of a command line that succeeds, with these variables."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        shlex.split(command),
        env={**os.environ, **variables, "PATH": programs},
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command} -> {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
