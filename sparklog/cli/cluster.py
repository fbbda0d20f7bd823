"""`sparklog cluster …`."""

from __future__ import annotations

import typer

from sparklog.cli.output import connect, done, human, key_values, settings, show_document

app = typer.Typer(help="Create a cluster and look at its health.", no_args_is_help=True)

STALE_SNAPSHOT_ENTRIES = 10_000  # ten times as many as a snapshot should ever be behind


@app.command()
def init(
    store: list[str] = typer.Option(
        [],
        "--store",
        metavar="ID=URL",
        help="A store for data; repeatable. Default: the cluster's own root.",
    ),
    cluster_config: list[str] = typer.Option(
        [], "--cluster-config", "-c", metavar="KEY=VALUE", help="A config key of the cluster; see docs/config.md."
    ),
) -> None:
    """Create a cluster at --cluster: mark its stores and write entry 0 of its metadata chain."""
    from sparklog.client.bootstrap import init_cluster

    stores = {name: str(url) for name, url in key_values(store, "--store").items()}
    url = settings.cluster()
    chain_id = init_cluster(url, stores=stores or None, config=key_values(cluster_config, "--cluster-config"))
    done(f"created cluster {chain_id} at {url}", {"chain_id": chain_id, "cluster": url})


@app.command()
def info() -> None:
    """Where the cluster is, its stores, topics and size."""
    with connect() as cluster, cluster.connection.follower.current() as state:
        partitions = list(state.partitions.values())
        show_document(
            {
                "cluster": cluster.connection.url,
                "chain_id": state.chain_id,
                "chain_position": state.n,
                "snapshot": cluster.connection.follower.snapshot_n,
                "floor": state.floor,
                "stores": [f"{each.store} ({each.url})" for each in state.stores.values()],
                "topics": len(state.topics),
                "partitions": len(partitions),
                "records": sum(each.high_watermark - each.log_start for each in partitions),
                "slices": len(state.slices),
                "size_bytes": sum(each.size_bytes for each in partitions),
                "config": [f"{key}={value}" for key, value in sorted(state.config.items())],
            }
        )


@app.command()
def health() -> None:
    """One screen: what waits to be rolled and deleted, and how each job ended last. Exit 5 if something is wrong."""
    import time

    from sparklog.core.rolling import plan_roll

    now_ms = time.time_ns() // 1_000_000
    with connect() as cluster, cluster.connection.follower.current() as state:
        waiting = 0
        for partition in state.partitions.values():
            waiting += sum(
                each.slices for each in plan_roll(state, state.topics[partition.topic_id], partition, now_ms)
            )
        due = sum(1 for each in state.retired.values() if each.delete_after_ms <= now_ms)
        behind = state.n - cluster.connection.follower.snapshot_n
        failed = [each.job for each in state.jobs.values() if each.failed_partitions]
        wrong = [f"job {each} failed in its last run: sparklog job status" for each in failed]
        if behind > STALE_SNAPSHOT_ENTRIES:
            wrong.append(f"no snapshot for {behind} entries: sparklog chain snapshot")
        document = {
            "healthy": not wrong,
            "wrong": wrong,
            "chain_position": state.n,
            "entries_since_snapshot": behind,
            "slices_to_roll": waiting,
            "objects_to_delete_now": due,
            "objects_to_delete_later": len(state.retired) - due,
            "floor": state.floor,
            "last_runs": [f"{each.job} {human('ended_ms', each.ended_ms)}" for each in state.jobs.values()],
        }
    show_document(document)
    if wrong:
        raise typer.Exit(5)
