"""`sparklog cluster health`, and the numbers that it shares with `cluster info`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.common_options import settings
from sparklog.cli.output import ending, now_ms, print_json, print_values, status
from sparklog.client.error_line import print_traceback_if_wanted
from sparklog.core.describe.readable import amount, counted, human, point_in_time

if TYPE_CHECKING:
    from sparklog.client.cluster import Cluster
    from sparklog.client.coordinator_health import CoordinatorHealth
    from sparklog.client.stores.store_health import ClusterHealth, StoreHealth
    from sparklog.core.state import ClusterState

HEALTH_EPILOG = ending("sparklog cluster health || echo 'look at it'", "sparklog cluster health --format json")
SHOWN_OBJECTS = 5  # shown objects with a problem; JSON has all


def health() -> None:
    """Show the problems of the cluster, and the state of its stores and jobs.

    The report has the size of the cluster, the work that waits for roll, retention and deletion, the stores, and the
    last run of each job.

    On each store, health reads the file INCARNATION, and writes, reads and removes a small object. This object is under
    append/ on a disk where logs have been written, otherwise under probe/. Health samples at most a hundred objects of
    the cluster, beginning with the newest and oldest of each topic: it compares their sizes and reads their last bytes.
    On a disk it also checks directory permissions. A store that does not answer is reported after 20 seconds. "not
    checked" lists the checks that were left out. For example, health does not compare the bytes of records, but
    `sparklog segment dump` does.

    Exit 5 if something is wrong: the metadata can't be read; the coordinator in force does not answer or lead; a store
    does not answer, can't be written, or is not the one that was registered; a partition has no leader, or fewer
    replicas in sync than min.insync.replicas; an object is missing, can't be read or has another size; the last run of
    a job failed; more than 10,000 entries were written since the newest snapshot.

    These are only remarks, and do not change the exit code: replicas that are not in sync; a store that is fenced or
    whose agent is down, and all problems of a fenced store; a newest entry whose time is 10 s or more ahead of this
    machine's clock; a lost index, which readers rebuild from its object; a disk whose space for commits was freed and
    is not reserved again (`sparklog store reserve`).
    """
    from sparklog.core.errors import ClusterNotFound, InvalidInput, InvalidOption, SparklogError
    from sparklog.storage.open_store import absolute_url, has_timeout

    url = settings.cluster()
    on_server = has_timeout(absolute_url(url))  # raises for a malformed address: wrong usage
    try:
        document, lists = _checked(url)
    except (ClusterNotFound, InvalidOption):
        raise
    except Exception as error:
        if type(error) is InvalidInput and not on_server:
            raise  # on a disk, the address is not a directory; a server may have answered this
        print_traceback_if_wanted()
        known = isinstance(error, SparklogError)
        _show_unreadable(f"the metadata can't be read: {error}" if known else f"the check itself failed with {error!r}")
        raise typer.Exit(5) from error
    if settings.json:
        print_json({**document, **lists})
    else:
        print_values({**document, **_lists_in_words(lists)})
    if not document["healthy"]:
        raise typer.Exit(5)


def _checked(url: str) -> tuple[dict[str, Any], dict[str, list[Any] | dict[str, Any] | None]]:
    from sparklog.client.coordinator_health import check_coordinator
    from sparklog.client.stores.store_health import check_stores

    with _connected(url) as cluster:
        status("asking the coordinator and the stores")
        coordinator = check_coordinator(cluster.connection)
        state = cluster.connection.newest_state()
        return _report(cluster, state, coordinator, check_stores(cluster.connection, state))


def _connected(url: str) -> Cluster:
    """Connect to the cluster. Raises the store's error, or RequestTimedOut if this takes longer than DEADLINE_MS."""
    from sparklog.client.cluster import connect
    from sparklog.client.stores.store_health import CALL_TIMEOUT_MS, DEADLINE_MS, in_time
    from sparklog.core.config.storage import METADATA_STORE
    from sparklog.storage.open_store import absolute_url, has_timeout

    hasty = {f"{METADATA_STORE}.timeout_ms": str(CALL_TIMEOUT_MS)} if has_timeout(absolute_url(url)) else {}
    return in_time(lambda: connect(url, storage=hasty), DEADLINE_MS, f"the metadata at {url}")


def _show_unreadable(problem: str) -> None:
    document: dict[str, Any] = {"healthy": False, "wrong": [problem]}
    if settings.json:
        print_json(document)
    else:
        print_values({**document, "not checked": "anything else"})


def _report(
    cluster: Cluster, state: ClusterState, coordinator: CoordinatorHealth, checked: ClusterHealth
) -> tuple[dict[str, Any], dict[str, list[Any] | dict[str, Any] | None]]:
    """Return the report in two maps: its single values, and its details under "orphans", "stores" and "jobs"."""
    from sparklog.core.describe.cluster_findings import clock_remarks, failed_jobs, stale_snapshot, store_findings
    from sparklog.core.describe.replica_findings import replication_health
    from sparklog.core.types import StoreId

    numbers = position(cluster, state)
    jobs = [{"job": run.job, "ended_ms": run.ended_ms, "failed": run.failed_partitions} for run in state.jobs.values()]
    wrong = [coordinator.problem] if coordinator.problem else []
    remarks: list[str] = []
    for store in checked.stores:
        problems = [*store.problems, *_some(store.bad_objects, "more problem")]
        findings = store_findings(state, StoreId(store.store), problems, store.free_bytes)
        wrong += findings.wrong
        remarks += findings.remarks
        remarks += [f"store {store.store}: {remark}" for remark in _some(store.remarks, "more remark")]
    replication = replication_health(state)
    wrong += replication.wrong
    remarks += replication.remarks + clock_remarks(state.time_ms, now_ms())
    wrong += failed_jobs(state) + stale_snapshot(numbers["entries_since_snapshot"])
    document: dict[str, Any] = {
        "healthy": not wrong,
        "wrong": wrong,
        "remarks": remarks,
        "coordinator": coordinator.committer,
        **numbers,
        **size(state),
        "partitions_offline": replication.offline,
        "partitions_under_min_isr": replication.under_min_isr,
        "partitions_under_replicated": replication.under_replicated,
        **_waiting(state, now_ms()),
        "objects": checked.objects,
        "objects_sampled": checked.sampled,
        "not_checked": _not_checked(checked),
    }
    return document, {"orphans": _orphans(state), "stores": [_store(store) for store in checked.stores], "jobs": jobs}


def _some(of_objects: list[str], more_of_them: str) -> list[str]:
    left = len(of_objects) - SHOWN_OBJECTS
    more = [f"{counted(left, more_of_them)} with sampled objects"] if left > 0 else []
    return [*of_objects[:SHOWN_OBJECTS], *more]


def _store(health: StoreHealth) -> dict[str, Any]:
    return {
        "store": health.store,
        "url": health.url,
        "found": "; ".join(health.problems) or "ok",
        "problems": len(health.problems) + len(health.bad_objects),
        "free_bytes": health.free_bytes,
        "objects_sampled": len(health.sampled),
        "bad_objects": health.bad_objects,
        "remarks": health.remarks,
    }


def _not_checked(checked: ClusterHealth) -> list[str]:
    from sparklog.core.config.storage import METADATA_STORE
    from sparklog.storage.keys import PROBES

    left = checked.objects - checked.sampled
    return [
        *([f"{left:,} of {counted(checked.objects, 'object')}"] if left else []),
        "the bytes of records: sparklog segment dump TOPIC -p P compares them with their checksums",
        "a write to the metadata chain: only a commit tries it (on a disk, directory permissions are checked)",
        *(
            f"a write under append/ of store {store.store}, where no object is: it was tried under {PROBES}"
            for store in checked.stores
            if store.appends_untried and store.store != METADATA_STORE
        ),
    ]


def _lists_in_words(lists: dict[str, Any]) -> dict[str, Any]:
    return {
        "orphans": _orphans_in_words(lists["orphans"]),
        "stores": [_store_in_words(store) for store in lists["stores"]],
        "last_runs": [
            f"{job['job']} at {point_in_time(job['ended_ms'])}: "
            f"{counted(job['failed'], 'failure') if job['failed'] else 'done'}"
            for job in lists["jobs"]
        ]
        or "no job has run yet",
    }


def _store_in_words(store: dict[str, Any]) -> str:
    problems = store["problems"]
    verdict = f"{counted(problems, 'problem')} (see above)" if problems else "ok"
    free = "" if store["free_bytes"] is None else f", {amount(store['free_bytes'])} free"
    sampled = counted(store["objects_sampled"], "object")
    return f"{store['store']}: {verdict}{free}, {sampled} looked for"


def position(cluster: Cluster, state: ClusterState) -> dict[str, Any]:
    """Return the newest entry of the chain, FLOOR, the newest snapshot and the number of entries after it, by name."""
    from sparklog.chain.snapshot.snapshot import newest

    manifest = newest(cluster.connection.follower.store)
    return {
        "chain_position": state.n,
        "chain_time_ms": state.time_ms,
        "floor": state.floor,
        "snapshot": None if manifest is None else manifest.n,
        "snapshot_time_ms": None if manifest is None else manifest.time_ms,
        "entries_since_snapshot": state.n - (-1 if manifest is None else manifest.n),
    }


def size(state: ClusterState) -> dict[str, Any]:
    """Return the numbers of topics, partitions, records, slices and applications, and the bytes of the log, by name."""
    from sparklog.core.describe.log_contents import log_contents

    partitions = state.partitions.values()
    return {
        "topics": len(state.topics),
        "partitions": len(partitions),
        "records": sum(sum(log_contents(state, topic).records) for topic in state.topics.values()),
        "slices": len(state.slices),
        "log_bytes": sum(partition.size_bytes for partition in partitions),
        "applications": len(state.applications),
    }


def _waiting(state: ClusterState, at_ms: int) -> dict[str, Any]:
    """Return the work that waits for roll, retention and deletion at time `at_ms`, as numbers by name."""
    from sparklog.core.maintenance.retention_rule import plan_retention
    from sparklog.core.maintenance.retired_objects import due_for_deletion
    from sparklog.core.maintenance.roll_rule import plan_roll

    slices = records = 0
    for partition in state.partitions.values():
        topic = state.topics[partition.topic_id]
        slices += sum(segment.slices for segment in plan_roll(state, topic, partition, at_ms))
        cut = plan_retention(state, topic, partition, at_ms)
        records += 0 if cut is None else cut.records
    due = len(due_for_deletion(state, at_ms))
    objects = [state.objects.get(retired.number) for retired in state.retired]
    return {
        "slices_to_roll": slices,
        "records_past_retention": records,
        "objects_to_delete_now": due,
        "objects_to_delete_later": len(state.retired) - due,
        "retired_bytes": sum(object_.size_bytes for object_ in objects if object_ is not None),
    }


def _orphans(state: ClusterState) -> dict[str, int] | None:
    """Return the numbers of orphans that the last vacuum found and deleted, and its time; None if they are unknown.

    They come from its report, because counting them again would need a listing of every store.
    """
    from sparklog.wire.job_messages import vacuum_figures

    last = state.jobs.get("vacuum")
    figures = None if last is None else vacuum_figures(last.report)
    if last is None or figures is None:
        return None
    metadata, deleted = figures.metadata, figures.metadata_done  # which are no orphans
    return {
        "at_ms": last.ended_ms,
        "found": figures.planned.objects - metadata.objects,
        "found_bytes": figures.planned.bytes - metadata.bytes,
        "deleted": figures.done.objects - deleted.objects,
    }


def _orphans_in_words(orphans: dict[str, int] | None) -> str:
    if orphans is None:
        return "never counted: sparklog job vacuum counts and deletes them"
    objects, size = counted(orphans["found"], "object"), human("found_bytes", orphans["found_bytes"])
    return f"{objects}, {size}, of which {orphans['deleted']} deleted, at {human('at_ms', orphans['at_ms'])}"
