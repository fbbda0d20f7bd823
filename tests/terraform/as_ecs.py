"""A container of a task definition as a process of this machine: its command, its variables and secrets, no more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def variables_of(
    container: Mapping[str, Any], secret: Callable[[str], str], mapped: Mapping[str, str]
) -> dict[str, str]:
    """What ECS gives the container. `mapped`: host names and ports that are others on this machine."""
    given = {each["name"]: each["value"] for each in container["environment"]}
    for found, replacement in mapped.items():
        given = {name: value.replace(found, replacement) for name, value in given.items()}
    return given | {each["name"]: secret(each["valueFrom"]) for each in container.get("secrets", ())}


def run_container(
    container: Mapping[str, Any], variables: Mapping[str, str], folder: Path, command: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Run a task to its end, with a command in the place of its own, as run-task overrides it."""
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [*container["entryPoint"], *command],
        cwd=folder,
        env=_environment(variables, folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def container_process(
    container: Mapping[str, Any], variables: Mapping[str, str], folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """The running process; SIGTERM ends it, as ECS does. Its output goes to `output` in the folder."""
    folder.mkdir()
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            [*container["entryPoint"], *container["command"]],
            cwd=folder,
            env=_environment(variables, folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            text=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(container["stopTimeout"])
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    return {"PATH": programs, "HOME": str(folder), "TMPDIR": str(folder), **variables}
