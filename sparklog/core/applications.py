"""Applications whose versions are no longer needed (`txnAppId`). None is ever forgotten but by an operator's command.

A forgotten application may write its versions once more, so a job that is run again after that writes its rows twice.
What FLOOR has not passed can't be forgotten: a try of that write may still be on its way.
"""

from __future__ import annotations

from collections.abc import Collection

from sparklog.core.commands import Application, ForgetApplications
from sparklog.core.errors import InvalidInput
from sparklog.core.records import ApplicationsForgotten, Record
from sparklog.core.state import ClusterState


def old_applications(state: ClusterState, before_ms: int, app_ids: Collection[str] | None = None) -> list[Application]:
    """Those (of `app_ids`) that wrote last before `before_ms` and before FLOOR, in order of their ids."""
    return [
        Application(app_id, each.version)
        for app_id, each in sorted(state.applications.items())
        if each.result.time_ms < before_ms and each.result.n < state.floor and (app_ids is None or app_id in app_ids)
    ]


def decide_forget_applications(state: ClusterState, command: ForgetApplications) -> tuple[Record, ...]:
    """Forget those that are still at the version that was seen; one that wrote since, or is gone, is passed over."""
    gone = []
    for each in command.applications:
        known = state.applications.get(each.app_id)
        if known is None or known.version != each.version:
            continue
        if known.result.n >= state.floor:
            raise InvalidInput(
                f"an application is forgotten when FLOOR ({state.floor}) has passed its last write, {each.app_id} "
                f"wrote in entry {known.result.n}: run 'sparklog job vacuum' once it is older than floor.delay.ms"
            )
        gone.append(each.app_id)
    return (ApplicationsForgotten(tuple(dict.fromkeys(gone))),) if gone else ()
