"""`sparklog cluster …`: make a cluster, and see how it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.output import (
    connect,
    done,
    ending,
    human,
    key_values,
    now_ms,
    print_json,
    print_values,
    show_rows,
    status,
)
from sparklog.cli.settings import settings
from sparklog.core.readable import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparklog.client.cluster import Cluster
    from sparklog.core.state import ClusterState
    from sparklog.storage.object_store import ObjectStore

app = typer.Typer(help="Create a cluster and look at its health.", no_args_is_help=True)

STALE_SNAPSHOT_ENTRIES = 10_000  # ten times what a committer lets pass before it writes the next one


@app.command(
    epilog=ending(
        "sparklog cluster init --cluster file:///data/log",
        "sparklog cluster init --cluster /data/log --store a=disk-a -c num.partitions=6",
    )
)
def init(
    store: list[str] = typer.Option(
        [],
        "--store",
        metavar="ID=URL",
        help="A store for data; may be given several times. A relative URL counts from the cluster's own. "
        "Default: one store, local, at the cluster's own root.",
    ),
    cluster_config: list[str] = typer.Option(
        [],
        "--cluster-config",
        "-c",
        metavar="KEY=VALUE",
        help="A config key of the cluster (docs/config.md); may be given several times.",
    ),
) -> None:
    """Create a cluster at --cluster: mark its stores, and write entry 0 of its metadata chain."""
    from sparklog.client.bootstrap import init_cluster
    from sparklog.storage.open_store import absolute_url

    stores = {name: str(url) for name, url in key_values(store, "--store").items()}
    url = absolute_url(settings.cluster())
    chain_id = init_cluster(url, stores=stores or None, config=key_values(cluster_config, "--cluster-config"))
    done(f"created cluster {chain_id} at {url}", {"chain_id": chain_id, "cluster": url})


@app.command(epilog=ending("sparklog cluster info", "sparklog cluster info --format json"))
def info() -> None:
    """Where the cluster is, what it is called, its stores and size."""
    from sparklog import __version__
    from sparklog.core.state import FORMAT
    from sparklog.storage.open_store import join_url

    with connect() as cluster, cluster.connection.follower.current() as state:
        url = cluster.connection.url
        stores = [
            {"store": each.store, "url": join_url(url, each.url), "registration": each.registration}
            for each in state.stores.values()
        ]
        document: dict[str, Any] = {
            "cluster": url,
            "chain_id": state.chain_id,
            "format": FORMAT,
            "sparklog": __version__,
            **_position(cluster, state),
            **_size(state),
        }
        if settings.json:
            print_json({**document, "stores": stores, "config": dict(state.config)})
            return
        print_values(
            {
                **document,
                "stores": [f"{each['store']} at {each['url']}" for each in stores],
                "config": [f"{key}={value}" for key, value in sorted(state.config.items())] or "only defaults",
            }
        )


@app.command(epilog=ending("sparklog cluster health || echo 'look at it'"))
def health() -> None:
    """One screen: size, what waits for roll, retention and deletion, stores, last run of each job.

    Exit 5 if something is wrong: a job failed in its last run, a store does not answer or is another one than was
    registered, or no snapshot was written for a long time.
    """
    with connect() as cluster, cluster.connection.follower.current() as state:
        at_ms = now_ms()
        stores = _stores(cluster, state)
        jobs: list[dict[str, Any]] = [
            {"job": each.job, "ended_ms": each.ended_ms, "failed": each.failed_partitions}
            for each in state.jobs.values()
        ]
        wrong = [f"store {each['store']}: {each['found']}" for each in stores if each["found"] != "ok"]
        wrong += [
            f"job {each['job']}: {each['failed']} failed, see sparklog job status" for each in jobs if each["failed"]
        ]
        position = _position(cluster, state)
        if (behind := position["entries_since_snapshot"]) > STALE_SNAPSHOT_ENTRIES:
            wrong.append(f"no snapshot for {counted(behind, 'entry')}: sparklog chain snapshot")
        document: dict[str, Any] = {
            "healthy": not wrong,
            "wrong": wrong,
            **position,
            **_size(state),
            **_waiting(state, at_ms),
        }
        orphans = _orphans(state)
    if settings.json:
        print_json({**document, "orphans": orphans, "stores": stores, "jobs": jobs})
    else:
        print_values(
            {
                **document,
                "orphans": _orphans_in_words(orphans),
                "stores": [f"{each['store']}: {each['found']}" for each in stores],
                "last_runs": [
                    f"{each['job']} at {human('ended_ms', each['ended_ms'])}: "
                    f"{counted(each['failed'], 'failure') if each['failed'] else 'done'}"
                    for each in jobs
                ]
                or "no job ran yet",
            }
        )
    if wrong:
        raise typer.Exit(5)


@app.command(epilog=ending("sparklog cluster doctor", "sparklog cluster doctor --no-spark --format json"))
def doctor(
    spark: bool = typer.Option(True, help="Also start Spark, and compare what is installed where its tasks run."),
) -> None:
    """Probe every store under races, and compare the installations of driver and executors.

    Each store must hold put-if-absent, read-after-write, ordered listings, ranged reads and deletes: a log on one that
    does not would lose writes. A probe writes under probe/ and removes what it wrote. Exit 5 if something fails.
    """
    with connect() as cluster, cluster.connection.follower.current() as state:
        opened = cluster.connection.stores(state)
        stores = {"metadata": cluster.connection.follower.store}
        stores |= {str(each): opened.get(each) for each in state.stores}
    places: dict[str, list[str]] = {}
    for name, store in stores.items():
        places.setdefault(store.url, []).append(name)
    rows: list[dict[str, Any]] = []
    for url, names in places.items():
        rows += _probed(" and ".join(names), stores[names[0]], url)
    if spark:
        rows += _installed()
    show_rows(rows, empty="")
    if any(each["found"] != "ok" for each in rows):
        raise typer.Exit(5)


def _probed(name: str, store: ObjectStore, url: str) -> Iterator[dict[str, Any]]:
    import uuid

    from sparklog.core.errors import SparklogError
    from sparklog.storage.probe import failure_of, probe

    status(f"probing {url}")
    try:
        checks = probe(store, uuid.uuid4().hex, thorough=True)
    except SparklogError as error:
        checks = [failure_of(error)]
    for each in checks:
        yield {"what": name, "check": each.check, "found": each.found or "ok"}


def _installed() -> Iterator[dict[str, Any]]:
    """What differs between this process and Spark's tasks."""
    from sparklog.core.errors import SparklogError
    from sparklog.spark.installations import installation_here, installations
    from sparklog.spark.job_arguments import job_session

    status("starting Spark to see what is installed where its tasks run")
    driver = installation_here()
    check = "Python and packages are the driver's"
    try:
        for each in installations(lambda: job_session("doctor")):
            found = "; ".join(each.differences(driver)) or "ok"
            yield {"what": f"Spark tasks on {each.host}", "check": check, "found": found}
    except SparklogError as error:
        yield {"what": "Spark tasks", "check": check, "found": str(error)}


def _position(cluster: Cluster, state: ClusterState) -> dict[str, Any]:
    """Where the chain ends, and how far its newest snapshot is behind."""
    from sparklog.chain.snapshot import newest

    manifest = newest(cluster.connection.follower.store)
    return {
        "chain_position": state.n,
        "chain_time_ms": state.time_ms,
        "floor": state.floor,
        "snapshot": None if manifest is None else manifest.n,
        "snapshot_time_ms": None if manifest is None else manifest.time_ms,
        "entries_since_snapshot": state.n - (-1 if manifest is None else manifest.n),
    }


def _size(state: ClusterState) -> dict[str, Any]:
    partitions = state.partitions.values()
    return {
        "topics": len(state.topics),
        "partitions": len(partitions),
        "records": sum(each.high_watermark - each.log_start for each in partitions),
        "slices": len(state.slices),
        "log_bytes": sum(each.size_bytes for each in partitions),
    }


def _waiting(state: ClusterState, at_ms: int) -> dict[str, Any]:
    """What the next run of each job would find, by the machine's clock."""
    from sparklog.core.retention import due_for_deletion, plan_retention
    from sparklog.core.rolling import plan_roll

    slices = records = 0
    for partition in state.partitions.values():
        topic = state.topics[partition.topic_id]
        slices += sum(each.slices for each in plan_roll(state, topic, partition, at_ms))
        cut = plan_retention(state, topic, partition, at_ms)
        records += 0 if cut is None else cut.records
    due = {each.number for each in due_for_deletion(state, at_ms)}
    sizes = {each: found.size_bytes for each in state.retired if (found := state.objects.get(each)) is not None}
    return {
        "slices_to_roll": slices,
        "records_past_retention": records,
        "objects_to_delete_now": len(due),
        "objects_to_delete_later": len(state.retired) - len(due),
        "retired_bytes": sum(sizes.values()),
    }


def _stores(cluster: Cluster, state: ClusterState) -> list[dict[str, str]]:
    """Each store with "ok" or what is wrong: its mark must be the one that was registered."""
    import msgspec

    from sparklog.client.bootstrap import Incarnation
    from sparklog.core.errors import KeyNotFound, SparklogError
    from sparklog.storage.keys import INCARNATION

    stores = cluster.connection.stores(state)
    rows = []
    for each in state.stores.values():
        try:
            mark = msgspec.json.decode(stores.get(each.store).get(INCARNATION), type=Incarnation)
            known = mark.incarnation == each.incarnation
            found = "ok" if known else f"another store: wanted incarnation {each.incarnation}, found {mark.incarnation}"
        except KeyNotFound:
            found = f"nothing there: no {INCARNATION} at {stores.get(each.store).url}"
        except (SparklogError, msgspec.DecodeError) as error:
            found = str(error)
        rows.append({"store": str(each.store), "found": found})
    return rows


def _orphans(state: ClusterState) -> dict[str, int] | None:
    """What the last vacuum found; counting them now would take a listing of every store."""
    import msgspec

    last = state.jobs.get("vacuum")
    if last is None:
        return None
    report = msgspec.json.decode(last.report)
    return {
        "at_ms": last.ended_ms,
        "found": report["planned"]["objects"],
        "found_bytes": report["planned"]["bytes"],
        "deleted": report["done"]["objects"],
    }


def _orphans_in_words(orphans: dict[str, int] | None) -> str:
    if orphans is None:
        return "not counted yet: sparklog job vacuum --dry-run"
    found, size = counted(orphans["found"], "object"), human("found_bytes", orphans["found_bytes"])
    return f"{found}, {size}, of which {orphans['deleted']} deleted, at {human('at_ms', orphans['at_ms'])}"
