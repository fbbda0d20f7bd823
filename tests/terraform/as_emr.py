"""A start of a job on EMR Serverless, run by spark-submit on this machine with the arguments that it has.

Like EMR this brings the files to the working directory of the driver, gives it its variables, and puts the values of
secrets in the place of their names. Spark is the one of this project, and its master local.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.terraform.applied import REGION, Applied

_DRIVER_ENV: Final = "spark.emr-serverless.driverEnv."
_SECRET: Final = "EMR.secret@"
_ON_THIS_MACHINE: Final = ("spark.ui.enabled=false", "spark.driver.host=127.0.0.1")


@dataclass
class Submission:
    """What is made of one start."""

    options: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


def run_start(
    applied: Applied,
    start: Mapping[str, Any],
    folder: Path,
    *,
    mapped: Mapping[str, str] | None = None,
    instead: tuple[Path, list[str]] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run it in this folder, which keeps the unpacked archive for the next one.

    `mapped`: addresses that are others on this machine. `instead`: a job and arguments in the place of its own.
    """
    submit = start["JobDriver"]["SparkSubmit"]
    folder.mkdir(exist_ok=True)
    submission = _submission(applied, submit["SparkSubmitParameters"], folder)
    job, arguments = instead or (applied.fetch(submit["EntryPoint"], folder), submit["EntryPointArguments"])
    for found, replacement in (mapped or {}).items():
        arguments = [each.replace(found, replacement) for each in arguments]
    spark = _spark()
    command = [str(spark / "bin" / "spark-submit"), "--master", "local[2]", *submission.options]
    for setting in (*_ON_THIS_MACHINE, f"spark.local.dir={folder}"):
        command += ["--conf", setting]
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.base_prefix) / "bin"), os.environ["PATH"]]),
        "HOME": str(folder),
        "SPARK_HOME": str(spark),
        **{name: os.environ[name] for name in ("JAVA_HOME", "SPARK_SUBMIT_OPTS") if name in os.environ},
        **applied.account.variables(REGION),
        **submission.variables,
    }
    return subprocess.run(
        [*command, str(job), *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _submission(applied: Applied, parameters: str, folder: Path) -> Submission:
    made = Submission()
    words = iter(shlex.split(parameters))
    for option, value in zip(words, words, strict=True):
        if option == "--archives":
            url, _, name = value.partition("#")
            _unpack(applied, url, folder / name)
        elif option == "--files":
            made.options += [option, ",".join(str(applied.fetch(url, folder)) for url in value.split(","))]
        elif option == "--conf" and value.startswith(_DRIVER_ENV):
            name, _, text = value.removeprefix(_DRIVER_ENV).partition("=")
            made.variables[name] = applied.secret(text.removeprefix(_SECRET)) if text.startswith(_SECRET) else text
        else:
            made.options += [option, value]
    return made


def _unpack(applied: Applied, url: str, folder: Path) -> None:
    """Under a local master Spark itself would unpack it to where no driver runs, and delete it after each job."""
    if not folder.is_dir():
        with tarfile.open(applied.fetch(url, folder.parent)) as packed:
            packed.extractall(folder, filter="data")


def _spark() -> Path:
    """That of the package pyspark."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
