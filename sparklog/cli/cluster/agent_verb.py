"""`sparklog agent`: run the agent of a store until it is stopped."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import typer

from sparklog.cli.common_options import settings
from sparklog.cli.output import connect, ending, now_ms, print_json
from sparklog.core.describe.readable import point_in_time
from sparklog.host.standard_streams import flush, print_to

if TYPE_CHECKING:
    from sparklog.agent.agent_requests import Note

EPILOG = ending("sparklog agent --store zone-b", "sparklog agent --store zone-b --once")


def agent(
    store: str = typer.Option(..., "--store", metavar="ID", help="The store to fill and to report on."),
    once: bool = typer.Option(
        False, "--once", help="Fetch missing records once, then stop (for cron). The store does not become live."
    ),
) -> None:
    """Fetch the records that a store's replicas lack, and report them, so that the replicas join and stay in the ISR.

    While no coordinator leads, the agent also checks the partitions that its store leads: replicas that lag for
    replica.lag.time.max.ms leave the ISR. The agent prints a line when it is up, behind or caught up, and for lagging
    replicas, errors and losses. SIGTERM and Ctrl-C stop it cleanly. With --once, exit 1 if something could not be
    fetched. Exit 4 if the store is fenced or belongs to another cluster.
    """
    from sparklog.agent.run import AgentRun
    from sparklog.core.types import StoreId

    with connect() as cluster:
        run = AgentRun(cluster.connection, StoreId(store), _show, once=once)
        with _stopped_by_signals(run.stop):
            run.run()


def _show(note: Note) -> None:
    if settings.json:
        print_json({"time_ms": now_ms(), "event": note.event, "text": note.text})
    else:
        print_to(sys.stdout, f"{point_in_time(now_ms())}  {note.event}: {note.text}")
    flush(sys.stdout)


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first SIGTERM or SIGINT, and restore the previous handlers, so that a second one kills."""

    def handle(number: int, frame: FrameType | None) -> None:
        stop()
        for stopped, handler in before.items():
            signal.signal(stopped, handler)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
