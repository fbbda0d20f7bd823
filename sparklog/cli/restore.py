"""`sparklog cluster restore`: bring a cluster back whose metadata is lost, from copies on its stores."""

from __future__ import annotations

import msgspec
import typer

from sparklog.cli.output import done, ending, print_warning, status
from sparklog.cli.settings import DRY_RUN, settings
from sparklog.core.readable import counted
from sparklog.options.key_value import key_values

RESTORE_EPILOG = ending(
    "sparklog cluster restore --cluster s3://logs-new/meta --from b=s3://logs-b --dry-run",
    "sparklog cluster restore --cluster s3://logs-new/meta --from b=s3://logs-b --without a",
)


def restore(
    source: list[str] = typer.Option(
        ...,
        "--from",
        metavar="ID=URL",
        help="A store of the lost cluster; may be given several times. Copies are read from these. Stores that are not "
        "given are looked for at their registered addresses.",
    ),
    without: list[str] = typer.Option(
        [], "--without", metavar="ID", help="A store that is lost, too; it is fenced. May be given several times."
    ),
    dry_run: bool = DRY_RUN,
) -> None:
    """Restore a cluster whose metadata is lost. Its new place is --cluster.

    Needs metadata.copies >= 1. What was acknowledged is there again, with its offsets, if one store of --from has all
    copies; --dry-run shows up to which entry each has them. The restored cluster has a new chain id: clients connect
    again, and what still runs on the lost metadata is refused by the stores. If the command is interrupted, run it
    again. See "When the metadata is lost" in docs/replication.md.
    """
    from sparklog.client.restore import restore_cluster
    from sparklog.storage.open_store import absolute_url

    url = absolute_url(settings.cluster())
    status(f"reading copies of the metadata from {counted(len(source), 'store')}")
    restored = restore_cluster(url, key_values(source, "--from"), without=without, dry_run=dry_run)
    copies = ", ".join(f"{store} has it up to entry {last:,}" for store, last in restored.copies.items())
    stores = ", ".join(f"{store} at {place}" for store, place in restored.stores.items())
    fenced = f"; fenced: {', '.join(restored.fenced)}" if restored.fenced else ""
    what = f"cluster {restored.previous} at {url}, as it was after entry {restored.last:,}, with "
    what += f"{counted(restored.topics, 'topic')} (of the metadata, {copies}; stores: {stores}{fenced})"
    if restored.checkpoint > restored.last:
        print_warning(
            f"the lost chain had at least entry {restored.checkpoint:,}, says a checkpoint on a store: what came after "
            f"entry {restored.last:,} is in none of these copies"
        )
    done(
        f"would restore {what}" if dry_run else f"restored {what}; its chain id is {restored.chain_id} now",
        {**msgspec.to_builtins(restored), "dry_run": dry_run},
    )
