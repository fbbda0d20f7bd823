"""`sparklog coordinator`: run a coordinator, or make the one that leads resign."""

from __future__ import annotations

import sys

import typer

from sparklog.cli.output import connect, done, ending, now_ms, print_json
from sparklog.cli.settings import settings
from sparklog.core.errors import InvalidInput
from sparklog.core.readable import point_in_time
from sparklog.host.streams import flush, print_to

EPILOG = ending(
    "sparklog coordinator", "sparklog coordinator --listen 127.0.0.1:7400", "sparklog coordinator resign --force"
)

app = typer.Typer(invoke_without_command=True, epilog=EPILOG)


@app.callback()
def run(
    context: typer.Context,
    listen: str = typer.Option(
        "127.0.0.1:0", "--listen", metavar="HOST:PORT", help="Where to serve. With port 0 the system chooses one."
    ),
) -> None:
    """Coordinate the cluster: commit for everybody who uses it, or stand by until the process that does is silent.

    From then on clients, jobs and agents send their commands to the one that leads. SIGTERM and Ctrl-C stop it cleanly:
    it resigns, then another one leads, or the cluster is embedded again.
    """
    if context.invoked_subcommand is not None:
        return
    from sparklog.coordinator.run import listening, serve
    from sparklog.coordinator.service import Service
    from sparklog.core.config.cluster import effective_cluster

    host, port = _host_and_port(listen)
    with connect() as cluster, listening(host, port) as listener:
        connection = cluster.connection
        if connection.coordinators is not None:
            raise InvalidInput(
                f"a coordinator reads and writes the metadata itself: --cluster {connection.url}, not the address of "
                "another coordinator"
            )
        config = effective_cluster(connection.follower.state.config)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}"
        service = Service(
            connection.follower,
            connection.url,
            address,
            session_ms=config.broker_session_timeout_ms,
            queued_max=config.queued_max_requests,
            say=_show,
            stores=connection.stores,
        )
        serve(service, listener, lambda: _show("serving", address))


@app.command(epilog=ending("sparklog coordinator resign", "sparklog coordinator resign --force"))
def resign(
    force: bool = typer.Option(
        False, "--force", help="Without asking it: for a coordinator that is gone or can't be reached."
    ),
) -> None:
    """Make the coordinator that leads resign. One that stands by takes over; without one the cluster is embedded again.

    With --force the resignation is written to the chain from here. That is safe at any time: what the coordinator
    writes after it counts for nothing.
    """
    from sparklog.core.commands import ResignCoordination

    with connect() as cluster:
        committer = cluster.connection.committer
        known = cluster.connection.follower.catch_up().state.coordinator
        submission = committer.begin(ResignCoordination(known.epoch))
        if force:
            committer.commit_here(submission)
        else:
            committer.submit(submission)
    done(
        f"{known.name} at {known.address} resigned, its epoch was {known.epoch}",
        {"name": known.name, "address": known.address, "epoch": known.epoch},
    )


def _show(event: str, text: str) -> None:
    if settings.json:
        print_json({"time_ms": now_ms(), "event": event, "text": text})
    else:
        print_to(sys.stdout, f"{point_in_time(now_ms())}  {event}: {text}")
    flush(sys.stdout)


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidInput(f"--listen: wanted HOST:PORT, found {text!r}")
    return host, int(port)
