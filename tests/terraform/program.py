"""Terraform as a program, with the provider from a folder: nothing is downloaded, and no account is asked."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

PROVIDER: Final = "hashicorp/aws"
_HOST: Final = "registry.terraform*"  # a plugin folder has a folder for each host that providers come from
_TIMEOUT_S: Final = 900
_HASHES: Final = re.compile(r"^  hashes = \[.*?\]\n", re.DOTALL | re.MULTILINE)
_GOGC: Final = "400"  # twice the memory, 500 MB, for a quarter less processor time


class Missing(Exception):
    """This machine lacks Terraform or the provider. Fixtures make a skip of it."""


class TerraformFailed(Exception):
    """A command of Terraform did not succeed: its output."""


@cache
def terraform() -> Path:
    """The program. Raises Missing."""
    found = shutil.which("terraform")
    if found is None:
        raise Missing("needs the program terraform, which is not in PATH")
    return Path(found)


@cache
def plugin_folder() -> Path:
    """The folder that holds the provider for this machine, as `init -plugin-dir` takes it. Raises Missing."""
    for folder in _candidates():
        if any(folder.glob(f"*/{PROVIDER}/*/*/terraform-provider-*")):
            return folder
    raise Missing(f"needs the provider {PROVIDER} in a plugin folder: set TF_PLUGIN_DIR")


def _candidates() -> Iterator[Path]:
    """TF_PLUGIN_DIR alone if it is set. Else the places that Terraform itself knows, then any near the root."""
    if given := os.environ.get("TF_PLUGIN_DIR"):
        yield Path(given)
        return
    if cached := os.environ.get("TF_PLUGIN_CACHE_DIR"):
        yield Path(cached)
    home = Path.home()
    yield home / ".terraform.d" / "plugins"
    data = [os.environ.get("XDG_DATA_HOME", home / ".local/share"), home / "Library/Application Support/io.terraform"]
    data += os.environ.get("XDG_DATA_DIRS", "/usr/local/share:/usr/share").split(":")
    yield from (place for folder in data for place in (Path(folder, "terraform/plugins"), Path(folder, "plugins")))
    for depth in ("", "*/", "*/*/"):
        yield from sorted(Path(found).parent for found in glob.glob(f"/{depth}{_HOST}"))


@dataclass(frozen=True)
class Workspace:
    """A folder with a configuration, in a copy that may be changed."""

    folder: Path

    def run(self, *arguments: str, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command there. Raises TerraformFailed unless it may fail."""
        command = [str(terraform()), *arguments]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode and not may_fail:
            raise TerraformFailed(f"terraform {' '.join(arguments)}\n{done.stderr[-6000:] or done.stdout[-6000:]}")
        return done

    def init(self) -> None:
        """Without hashes of the provider in the lock file: each command would hash its 700 MB again."""
        self.run("init", "-backend=false", "-input=false", "-no-color", f"-plugin-dir={plugin_folder()}")
        lock = self.folder / ".terraform.lock.hcl"
        lock.write_text(_HASHES.sub("", lock.read_text()))

    def validate(self) -> list[str]:
        """What `validate` complains about, deprecations included."""
        done = self.run("validate", "-json", may_fail=True)
        return [f"{each['summary']}: {each.get('detail', '')}" for each in json.loads(done.stdout)["diagnostics"]]

    def plan(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """A plan as `show -json` gives it. Leaves it in the folder, for `apply`."""
        self.run("plan", "-input=false", "-no-color", "-out=plan.bin", *self.given(variables))
        shown: dict[str, Any] = json.loads(self.run("show", "-json", "plan.bin").stdout)
        return shown

    def state(self) -> dict[str, Any]:
        """What was applied, as `show -json` gives it."""
        shown: dict[str, Any] = json.loads(self.run("show", "-json").stdout)
        return shown

    def outputs(self) -> dict[str, Any]:
        return {name: each["value"] for name, each in json.loads(self.run("output", "-json").stdout).items()}

    def given(self, variables: Mapping[str, Any]) -> Sequence[str]:
        """The option that hands over these variables. Writes them to a file."""
        file = self.folder / "check.tfvars.json"
        file.write_text(json.dumps(variables))
        return [f"-var-file={file.name}"]


def _environment() -> dict[str, str]:
    """No settings, keys or addresses of the shell reach Terraform."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "AWS_"))}
    return {**kept, "GOGC": _GOGC, "TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
