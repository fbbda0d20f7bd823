"""`sparklog cluster …`: create a cluster and check on it."""

from __future__ import annotations

from typing import Any

import typer

from sparklog.cli.changing import changed_by, show_change
from sparklog.cli.cluster.cluster_cost import COST_EPILOG, cost
from sparklog.cli.cluster.cluster_health import HEALTH_EPILOG, health, position, size
from sparklog.cli.cluster.cluster_restore import RESTORE_EPILOG, restore
from sparklog.cli.cluster.doctor import CLUSTER_DOCTOR_EPILOG, cluster_doctor
from sparklog.cli.common_options import DRY_RUN, settings
from sparklog.cli.output import (
    connect,
    done,
    ending,
    print_json,
    print_values,
    print_warning,
)
from sparklog.core.describe.readable import counted
from sparklog.options.key_value import config_changes, key_values, store_addresses

_APPLICATIONS_PER_COMMAND = 1_000

app = typer.Typer(help="Create, check, change and restore a cluster.", no_args_is_help=True)


@app.command(
    epilog=ending(
        "sparklog cluster init --cluster file:///data/log",
        "sparklog cluster init --cluster /data/log --store a=disk-a -c num.partitions=6",
        "sparklog cluster init --cluster s3://logs/meta --store a@zone-1=s3://logs-a --store b@zone-2=s3://logs-b",
    )
)
def init(
    store: list[str] = typer.Option(
        [],
        "--store",
        metavar="ID[@ZONE]=URL",
        help="A store for data; may be given several times. A relative URL is resolved against the cluster's. "
        "The replicas of a partition are spread over the zones. "
        'Default: one store, "local", at the cluster\'s root.',
    ),
    cluster_config: list[str] = typer.Option(
        [],
        "--cluster-config",
        "-c",
        metavar="KEY=VALUE",
        help="A config key of the cluster (docs/config.md); may be given several times.",
    ),
) -> None:
    """Create a cluster at --cluster: put a file INCARNATION on each store, and write entry 0 of the metadata chain.

    If --cluster is on a disk, 4 MiB are reserved there. If the disk is ever full, sparklog store free frees them.
    """
    from sparklog.client.bootstrap import init_cluster
    from sparklog.storage.open_store import absolute_url

    stores = store_addresses(store, "--store")
    url = absolute_url(settings.cluster())
    chain_id = init_cluster(
        url,
        stores={store.store: store.url for store in stores} or None,
        zones={store.store: store.zone for store in stores if store.zone},
        config=key_values(cluster_config, "--cluster-config"),
    )
    _make_reserve(url)
    done(f"created cluster {chain_id} at {url}", {"chain_id": chain_id, "cluster": url})


def _make_reserve(url: str) -> None:
    """Reserve space for `sparklog store free`, if the metadata is on a disk. If that fails, only print a warning."""
    from sparklog.core.errors import SparklogError
    from sparklog.storage.local.store import LocalStore
    from sparklog.storage.open_store import open_store

    store = open_store(url)
    if isinstance(store, LocalStore):
        try:
            store.reserve.make()
        except SparklogError as error:
            print_warning(f"no space is reserved for sparklog store free: {error.message}")


@app.command(
    epilog=ending(
        "sparklog cluster alter --set page.writes=true",
        "sparklog cluster alter --delete log.retention.ms --dry-run",
    )
)
def alter(
    set_: list[str] = typer.Option(
        [], "--set", "-s", metavar="KEY=VALUE", help="Set a config key; may be given several times."
    ),
    delete: list[str] = typer.Option(
        [], "--delete", "-d", metavar="KEY", help="Remove a config key, so that its default applies."
    ),
    dry_run: bool = DRY_RUN,
) -> None:
    """Change the config of the cluster, including the defaults of its topics (docs/config.md).

    A process applies the change as soon as it reads the new entry of the chain.
    """
    from sparklog.core.commands import AlterCluster
    from sparklog.core.config.cluster_config import merge_cluster_config, parse_cluster_config

    changed = config_changes(set_, delete, parse_cluster_config)
    with connect() as cluster:
        before = cluster.connection.newest_state().config
        change = changed_by(cluster, AlterCluster(changed, tuple(delete)), dry_run=dry_run)
    config = merge_cluster_config(before, {**changed, **dict.fromkeys(delete)})
    show_change(change, {"config": config, "before": before}, dry_run=dry_run)


@app.command(epilog=ending("sparklog cluster info", "sparklog cluster info --format json"))
def info() -> None:
    """Show the address, id, stores and size of the cluster."""
    from sparklog import __version__
    from sparklog.core.state import FORMAT
    from sparklog.storage.open_store import registered_url

    with connect() as cluster:
        state = cluster.connection.newest_state()
        url = cluster.connection.url
        stores = [
            {
                "store": store.store,
                "url": registered_url(url, store.url),
                "zone": store.zone or None,
                "registration": store.registration,
            }
            for store in state.stores.values()
        ]
        document: dict[str, Any] = {
            "cluster": url,
            "chain_id": state.chain_id,
            "format": FORMAT,
            "sparklog": __version__,
            **position(cluster, state),
            **size(state),
        }
        if settings.json:
            print_json({**document, "stores": stores, "config": dict(state.config)})
            return
        print_values(
            {
                **document,
                "stores": [
                    f"{store['store']} at {store['url']}" + (f", zone {store['zone']}" if store["zone"] else "")
                    for store in stores
                ],
                "config": [f"{key}={value}" for key, value in sorted(state.config.items())] or "only defaults",
            }
        )


app.command(epilog=HEALTH_EPILOG)(health)
app.command(epilog=COST_EPILOG)(cost)
app.command("doctor", epilog=CLUSTER_DOCTOR_EPILOG)(cluster_doctor)
app.command(epilog=RESTORE_EPILOG)(restore)


@app.command(
    epilog=ending(
        "sparklog cluster forget-applications --before 2026-01-31T00:00:00Z --dry-run",
        "sparklog cluster forget-applications --before 2026-01-31T00:00:00Z --app-id nightly-2025-12-24",
    )
)
def forget_applications(
    before: str = typer.Option(
        metavar="TIME",
        help="Only applications whose last write was before this time: ISO 8601 with a zone, or ms since the epoch.",
    ),
    app_id: list[str] = typer.Option(
        [], "--app-id", metavar="ID", help="Only this txnAppId; may be given several times. Default: all."
    ),
    dry_run: bool = DRY_RUN,
) -> None:
    """Forget the last versions of applications (txnAppId). Otherwise they are kept forever.

    If a job with one of these ids runs again, it writes its rows a second time. Applications that wrote after FLOOR are
    kept; `sparklog job vacuum` raises FLOOR.
    """
    from sparklog.core.commands import ForgetApplications
    from sparklog.core.idempotence.applications import old_applications
    from sparklog.options.starting_offsets import parse_timestamp_us

    before_ms = parse_timestamp_us("--before", before) // 1000
    with connect() as cluster:
        connection, follower = cluster.connection, cluster.connection.follower
        state = follower.newest_state()
        old = old_applications(state, before_ms, frozenset(app_id) or None)
        for at in range(0, 0 if dry_run else len(old), _APPLICATIONS_PER_COMMAND):
            connection.submit(ForgetApplications(tuple(old[at : at + _APPLICATIONS_PER_COMMAND])))
        state = follower.newest_state()
        left = len(state.applications)
        if not dry_run:  # applications that wrote since the search were kept
            old = [application for application in old if application.app_id not in state.applications]
    done(
        f"{'would forget' if dry_run else 'forgot'} {counted(len(old), 'application')}, {left:,} left",
        {"forgotten": [application.app_id for application in old], "applications": left, "dry_run": dry_run},
    )
