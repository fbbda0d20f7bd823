"""The option --job-command: how the coordinator and `sparklog job run-all` run jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import typer

from sparklog.cli.common_options import settings

if TYPE_CHECKING:
    from sparklog.core.config.storage import StorageSettings
    from sparklog.maintenance.job_command import JobCommand

JOB_COMMAND = typer.Option(
    None,
    "--job-command",
    metavar="TEXT",
    help="How to run jobs: local (each in its own process; only compaction starts Spark), none, or a command that "
    "contains {job}, {cluster} and {report}. Default: SPARKLOG_JOB_COMMAND, job_command of the config file, local.",
)


class NewJobRunner(Protocol):
    """A function that makes the job runner for a cluster's address. `settings`: as in `JobCommand`."""

    def __call__(self, cluster: str, *, settings: StorageSettings = ...) -> JobCommand: ...


def job_runner(given: str | None) -> NewJobRunner | None:
    """Return a function that makes the job runner for a cluster's address; None if the job command is "none".

    `given` is the option --job-command. If it is None, the environment or the config file names the job command.
    Raises InvalidInput for a malformed command.
    """
    from sparklog.maintenance.job_command import LOCAL, JobCommand, command_words

    text = settings.job_command(given)
    if text == "none":
        return None
    return partial(JobCommand, words=LOCAL if text == "local" else command_words(text))
