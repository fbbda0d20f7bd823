"""Applications whose versions are no longer needed (`txnAppId`). Only an operator's command forgets one.

A forgotten application may write its old versions again, so a job that is rerun after that writes its rows twice.
An application can be forgotten only once FLOOR has passed its last write: before that, an attempt at the write may
still be under way.
"""

from __future__ import annotations

from collections.abc import Collection

from sparklog.core.commands import Application, ForgetApplications
from sparklog.core.errors import InvalidInput
from sparklog.core.records import ApplicationsForgotten, Record
from sparklog.core.state import ClusterState


def old_applications(state: ClusterState, before_ms: int, app_ids: Collection[str] | None = None) -> list[Application]:
    """The applications (of `app_ids`, or all) whose last write is older than `before_ms` and below FLOOR, by id."""
    return [
        Application(app_id, last.version)
        for app_id, last in sorted(state.applications.items())
        if last.result.time_ms < before_ms and last.result.n < state.floor and (app_ids is None or app_id in app_ids)
    ]


def decide_forget_applications(state: ClusterState, command: ForgetApplications) -> tuple[Record, ...]:
    """Forget the applications that are still at the version given; skip any that has written since or is gone."""
    forgotten = []
    for application in command.applications:
        known = state.applications.get(application.app_id)
        if known is None or known.version != application.version:
            continue
        if known.result.n >= state.floor:
            raise InvalidInput(
                f"an application is forgotten when FLOOR ({state.floor}) has passed its last write, "
                f"{application.app_id} wrote in entry {known.result.n}: "
                "run 'sparklog job vacuum' once it is older than floor.delay.ms"
            )
        forgotten.append(application.app_id)
    return (ApplicationsForgotten(tuple(dict.fromkeys(forgotten))),) if forgotten else ()
