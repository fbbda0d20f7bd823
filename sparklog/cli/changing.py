"""Plans a change, commits it unless it is a dry run, and prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparklog.cli.common_options import settings
from sparklog.cli.output import Row, done, print_warning
from sparklog.core.describe.readable import text_table

if TYPE_CHECKING:
    from sparklog.client.cluster import Cluster
    from sparklog.core.describe.planned_changes import Described, PlannedChange


def changed_by(cluster: Cluster, command: Described, *, dry_run: bool) -> PlannedChange:
    """Return the change that the command makes, and commit it unless `dry_run`. Raises the errors of the commit."""
    from sparklog.core.describe.planned_changes import planned_change

    state, records = cluster.connection.decided(command)
    change = planned_change(state, command, records)
    if not dry_run:
        cluster.submit(command)
    return change


def show_change(change: PlannedChange, document: Row, *, dry_run: bool) -> None:
    """Print the sentence about a change, or `document` with --format json. A dry run also prints the table.

    Warnings go to stderr.
    """
    for warning in change.warnings:
        print_warning(warning)
    if dry_run and change.rows and not settings.json:
        print(text_table(change.rows))
    done(change.would if dry_run else change.done, {**document, "dry_run": dry_run})
