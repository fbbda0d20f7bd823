"""`sparklog chain …`: the metadata chain itself."""

from __future__ import annotations

import typer

from sparklog.cli.output import connect, done, human, print_json, settings, show_document, show_rows

app = typer.Typer(help="Look into the metadata chain.", no_args_is_help=True)


@app.command()
def tail(num: int = typer.Option(20, "--num", "-n", min=1, help="How many entries.")) -> None:
    """The newest entries: who wrote them when, and what they did."""
    from sparklog.chain.entry import decode_entry
    from sparklog.core.errors import KeyNotFound
    from sparklog.storage.keys import entry_key

    rows = []
    with connect() as cluster:
        follower = cluster.connection.follower
        for n in range(max(0, follower.state.n - num + 1), follower.state.n + 1):
            try:
                entry = decode_entry(n, follower.store.get(entry_key(n)))
            except KeyNotFound:
                continue  # an old entry that a snapshot covers and that was deleted
            if settings.json:
                print_json(entry)
                continue
            what = [type(record).__struct_config__.tag for command in entry.commands for record in command.records]
            rows.append(
                {
                    "n": n,
                    "time_ms": entry.time_ms,
                    "author": f"{entry.author.kind} {entry.author.name}",
                    "commands": len(entry.commands),
                    "records": [f"{what.count(each)} x {each}" for each in dict.fromkeys(what)],
                }
            )
    if not settings.json:
        show_rows(rows, ("n", "time_ms", "author", "commands", "records"))


@app.command()
def state() -> None:
    """What the chain says now, in numbers."""
    with connect() as cluster, cluster.connection.follower.current() as found:
        show_document(
            {
                "chain_id": found.chain_id,
                "n": found.n,
                "time_ms": found.time_ms,
                "entry_hash": cluster.connection.follower.entry_hash,
                "floor": found.floor,
                "snapshot": cluster.connection.follower.snapshot_n,
                "topics": len(found.topics),
                "partitions": len(found.partitions),
                "slices": len(found.slices),
                "objects": len(found.objects),
                "retired_objects": len(found.retired),
                "producers": len(found.producers),
                "applications": len(found.applications),
                "results_kept": len(found.results),
            }
        )


@app.command()
def snapshot() -> None:
    """Write a snapshot of the state now, so that opening the cluster reads fewer entries."""
    with connect() as cluster:
        n = cluster.connection.committer.write_snapshot()
    done(f"the newest snapshot is that of entry {n}", {"snapshot": n})


@app.command()
def write(command_id: str = typer.Argument(metavar="ID", help="A command id, or a writeId.")) -> None:
    """What became of a write: looked up by its command id or its writeId. Exit 3 if the chain does not know it."""
    from sparklog.core.errors import NotFound

    with connect() as cluster, cluster.connection.follower.current() as found:
        known = [
            (each, result)
            for each, result in found.results.items()
            if each == command_id or (result.label and result.label == command_id)
        ]
        if not known:
            raise NotFound(
                f"no command {command_id} in the chain up to entry {found.n}: it did not land, or FLOOR "
                f"({found.floor}) has passed it"
            )
        names = {each.topic_id: each.name for each in found.topics.values()}
        rows = [
            {
                "command": each,
                "n": result.n,
                "time_ms": result.time_ms,
                "write_id": result.label,
                "application": None if result.application is None else result.application.app_id,
                "version": None if result.application is None else result.application.version,
                "records": result.records,
                "ranges": [
                    f"{names.get(part.topic_id, part.topic_id)}-{part.partition} [{part.start}, {part.end})"
                    for part in result.ranges
                ],
            }
            for each, result in known
        ]
    if settings.json:
        print_json(rows)
        return
    for row in rows:
        for name, value in row.items():
            print(f"{name:<12} {human(name, value)}")
