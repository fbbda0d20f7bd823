"""Completes names of topics and groups when the user presses Tab in the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sparklog.cli.common_options import settings
from sparklog.core.errors import SparklogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparklog.client.cluster import Cluster


def completed_topics(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of topics that begin with `incomplete`, in ascending order; [] if the cluster can't be read."""
    return _beginning(context, incomplete, lambda cluster: cluster.topics())


def completed_groups(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of groups that begin with `incomplete`, in ascending order; [] if the cluster can't be read."""
    return _beginning(context, incomplete, lambda cluster: cluster.groups())


def _beginning(context: typer.Context, incomplete: str, names: Callable[[Cluster], list[str]]) -> list[str]:
    from sparklog.cli.output import connect

    typed = context.find_root().params  # the shell passes the command line itself in a variable
    settings.take([f"--{name}={typed[name]}" for name in ("cluster", "config") if typed.get(name)])
    try:
        with settings.in_force(), connect() as cluster:
            return [name for name in names(cluster) if name.startswith(incomplete)]
    except (SparklogError, OSError):
        return []  # any output here would become part of the typed command
