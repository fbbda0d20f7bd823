"""Applications (`txnAppId`, streaming queries): the runs that may write, and the applications no longer needed.

A streaming query that is started again is another run of the same application. A run becomes the current one when it
first adds a version, and from then on every earlier run is fenced. If two runs are active at once, the older one can
write nothing more, not even its next version. The ids of runs have no order (Spark draws them), so the chain orders
them. It remembers the newest 32 runs of an application. A run that was forgotten but is still alive is refused as well,
because later runs have long written the version that it would write next.

Spark repeats the last micro-batch at most, with the same records. So a version below the last is no repeat: the
checkpoint was set back. The last version is no repeat either if its input (`made_of`) has changed: the checkpoint was
set back by one micro-batch, or a copy of it is in use. If that write counted as a repeat, its records would be missing.

Only an operator's command forgets an application. A forgotten application may write its old versions again, so a job
that is rerun after that writes its rows twice. An application can be forgotten only once FLOOR has passed its last
write: before that, an attempt at the write may still be under way.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sparklog.core.commands import Application, ForgetApplications
from sparklog.core.errors import InvalidInput, InvalidProducerEpoch, OutOfOrderSequence
from sparklog.core.records import ApplicationsForgotten, Record
from sparklog.core.state import ClusterState

MOST_RUNS: Final = 32
_SET_BACK: Final = (
    "its records may differ from those that are written, because the checkpoint of the query was set back, or another "
    "query uses a copy of it: begin with a new checkpoint, from offsets that you know to be right; a job gives new "
    "rows the next version"
)


def old_applications(state: ClusterState, before_ms: int, app_ids: Collection[str] | None = None) -> list[Application]:
    """Return the applications whose last write is older than `before_ms` and below FLOOR, ordered by id.

    With `app_ids`, only applications with these ids are returned.
    """
    return [
        Application(app_id, last.version)
        for app_id, last in sorted(state.applications.items())
        if last.result.time_ms < before_ms and last.result.n < state.floor and (app_ids is None or app_id in app_ids)
    ]


def check_run(state: ClusterState, application: Application) -> None:
    """Raise InvalidProducerEpoch if another run of the application has written since this run did.

    Raises OutOfOrderSequence if a write with a run or a `made_of` is below the application's last version, because its
    records may differ from those that were written. A write of the last version raises the same if its `made_of`
    differs. Versions are not checked while the application has yet to be notified of a loss.
    """
    known = state.applications.get(application.app_id)
    if known is not None and application.run in known.runs[1:]:
        raise InvalidProducerEpoch(
            f"version {application.version} of {application.app_id}: run {application.run} is fenced, because run "
            f"{known.runs[0]} has written version {known.version} since: two runs of one query are active, and the "
            "newer one continues"
        )
    if known is None or known.lost is not None:
        return
    if (application.run or application.made_of) and application.version < known.version:
        raise OutOfOrderSequence(
            f"wanted version {known.version} of {application.app_id} again, or a later one, found version "
            f"{application.version}: {_SET_BACK}"
        )
    written = known.result.application
    if written is not None and application.version == written.version and _is_other(application, written):
        raise OutOfOrderSequence(
            f"version {application.version} of {application.app_id} was written in entry {known.result.n}, and is made "
            f"of something else now: {_SET_BACK}"
        )


def _is_other(application: Application, written: Application) -> bool:
    """True if two writes of one version differ in `made_of`; False if either has none."""
    return bool(application.made_of and written.made_of) and application.made_of != written.made_of


def runs_after(state: ClusterState, application: Application) -> tuple[str, ...]:
    """Return the ids of the application's newest runs as they are after this write, the current run first."""
    known = state.applications.get(application.app_id)
    runs = () if known is None else known.runs
    if not application.run or runs[:1] == (application.run,):
        return runs
    return (application.run, *runs)[:MOST_RUNS]


def decide_forget_applications(state: ClusterState, command: ForgetApplications) -> tuple[Record, ...]:
    """Return the record that forgets these applications; () if there is none to forget.

    Applications that are gone or have written since are skipped. Raises InvalidInput if FLOOR has not passed the last
    write of one of the others.
    """
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
