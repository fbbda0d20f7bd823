"""`sparklog cluster restore`: restore a cluster whose metadata is lost, from copies on its stores."""

from __future__ import annotations

import msgspec
import typer

from sparklog.cli.common_options import DRY_RUN, settings
from sparklog.cli.output import done, ending, print_warning, status
from sparklog.core.describe.readable import counted, point_in_time
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
        help="A store of the lost cluster; may be given several times. Other stores are looked for at the addresses "
        "recorded on these.",
    ),
    without: list[str] = typer.Option(
        [], "--without", metavar="ID", help="A store that is lost too: it is fenced. May be given several times."
    ),
    take_over: bool = typer.Option(
        False, "--take-over", help="Give up a restore to another place that was interrupted before it began there."
    ),
    accept_loss: bool = typer.Option(
        False,
        "--accept-loss",
        help="Restore even if there is evidence that the copies lack acknowledged writes.",
    ),
    dry_run: bool = DRY_RUN,
) -> None:
    """Restore a cluster whose metadata is lost. The new metadata is written at --cluster.

    The lost cluster must have had metadata.copies >= 1. Name any of its stores with --from: the addresses of the other
    stores are recorded there. Acknowledged records come back with their offsets; --dry-run shows up to which entry each
    store has copies. The restored cluster has a new chain id, so clients must connect again. The stores refuse
    processes that still use the lost metadata. If the command is interrupted, run it again. See "When the metadata is
    lost" in docs/replication.md.
    """
    from sparklog.client.restoring.restore_cluster import restore_cluster
    from sparklog.storage.open_store import absolute_url

    url = absolute_url(settings.cluster())
    status(f"reading copies of the metadata from {counted(len(source), 'store')}")
    restored = restore_cluster(
        url,
        key_values(source, "--from"),
        without=without,
        take_over=take_over,
        accept_loss=accept_loss,
        dry_run=dry_run,
    )
    copies = ", ".join(
        f"{store} has none" if last < 0 else f"{store} has copies up to entry {last:,}"
        for store, last in restored.copies.items()
    )
    stores = ", ".join(f"{store} at {place}" for store, place in restored.stores.items())
    fenced = f"; fenced: {', '.join(restored.fenced)}" if restored.fenced else ""
    what = f"cluster {restored.previous} at {url}, as it was after entry {restored.last:,} of "
    what += f"{point_in_time(restored.time_ms)}, with "
    what += f"{counted(restored.topics, 'topic')} (of the metadata, {copies}; stores: {stores}{fenced})"
    if restored.newer is not None:
        print_warning(
            f"the lost chain had more: {restored.newer}; writes after entry {restored.last:,} "
            + ("would be lost: this is refused without --accept-loss" if dry_run else "are lost (--accept-loss)")
        )
    done(
        f"would restore {what}" if dry_run else f"restored {what}; its chain id is {restored.chain_id} now",
        {**msgspec.to_builtins(restored), "dry_run": dry_run},
    )
