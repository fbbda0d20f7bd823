"""The content of each page: functions of an `Observation`, without I/O. The templates only lay the content out.

Every part of a page names the command line that shows the same numbers. Long lists are split into pages.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import structs

from sparklog.client.describe.chain_tail import ChainTail
from sparklog.coordinator.page.charts import Chart, chart
from sparklog.coordinator.page.words import span
from sparklog.coordinator.watching.activity import appended_rates, rates
from sparklog.coordinator.watching.observation import Observation
from sparklog.core.describe.cluster_findings import clock_remarks, failed_jobs, stale_snapshot, store_findings
from sparklog.core.describe.group_rows import group_row
from sparklog.core.describe.next_cut import next_cut_by_time_ms
from sparklog.core.describe.readable import counted
from sparklog.core.describe.replica_findings import replication_health
from sparklog.core.describe.store_rows import StoreRow, store_rows
from sparklog.core.describe.topic_rows import describe_topic, topic_row
from sparklog.core.errors import SparklogError
from sparklog.core.groups.lag import group_lags
from sparklog.core.lookup import topic_of
from sparklog.core.records import JobRan
from sparklog.core.state import ClusterState, Topic
from sparklog.storage.open_store import registered_url

T = TypeVar("T")

ROWS: Final = 100  # on one page
TOPICS_AT_FIRST: Final = 15  # on the overview
GROUPS_AT_FIRST: Final = 15
SENTENCES: Final = 15  # of findings, and of remarks
LATE_MS: Final = 1_000  # an event loop that is later than this has too much to do
REPORT_CHARACTERS: Final = 20_000
_CHARTS: Final = ((60, 1), (120, 1), (300, 5), (600, 5))  # the time span of a chart, and of one point in it; seconds


class Health(msgspec.Struct, frozen=True):
    """Sentences on what is wrong with the cluster, and remarks on what is not wrong but worth knowing.

    `more_wrong`, `more_remarks`: the number of further sentences that are left out.
    """

    wrong: list[str]
    remarks: list[str]
    more_wrong: int
    more_remarks: int

    @property
    def verdict(self) -> str:
        """A sentence with the number of things that are wrong; if nothing is, with the number of remarks, if any."""
        if wrong := len(self.wrong) + self.more_wrong:
            return f"{counted(wrong, 'thing')} {'is' if wrong == 1 else 'are'} wrong"
        remarks = len(self.remarks) + self.more_remarks
        return (
            f"Nothing is wrong, but there {'is' if remarks == 1 else 'are'} {counted(remarks, 'remark')}"
            if remarks
            else "All is well"
        )


class CoordinatorInForce(msgspec.Struct, frozen=True):
    """A sentence that names the coordinator in force. `leads`: true if it is this process.

    `link`: the address of its web pages; "" if this process leads, if no process does, or if it is no HTTP address.
    """

    text: str
    leads: bool
    link: str


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list. Pages count from 1; `total` is the number of rows on all pages."""

    rows: list[T]
    total: int
    page: int
    pages: int

    @property
    def first(self) -> int:
        """The number of this page's first row in the whole list, from 1."""
        return (self.page - 1) * ROWS + 1


class SeenStore(StoreRow, frozen=True, kw_only=True):
    """A store as this process sees it.

    `heard_ms_ago`: the milliseconds since its agent or a write last showed that the store is alive. `heard_ms_ago` and
    `free_bytes` are None if this process does not know them.
    """

    heard_ms_ago: int | None
    free_bytes: int | None


class JobRow(msgspec.Struct, frozen=True):
    """The last run of a job. `report`: its report as indented JSON, cut after REPORT_CHARACTERS."""

    run: JobRan
    report: str


# ---- pages ------------------------------------------------------------------------------------------


def overview(seen: Observation, tail: ChainTail | SparklogError) -> dict[str, Any]:
    """The content of the first page: the health, the counts, and the beginning of each list."""
    state, counts = seen.state, seen.replicas
    return {
        "health": health(seen),
        "counts": counts,
        "topics": [topic_row(state, topic) for topic in _first_topics(state)],
        "topics_total": len(state.topics),
        "stores": seen_stores(seen),
        "jobs": job_rows(state),
        "groups": list(map(group_row, group_lags(state).most_behind(GROUPS_AT_FIRST))),
        "charts": charts(seen),
        "tail": tail,
    }


def topics(seen: Observation, find: str, page: int) -> dict[str, Any]:
    """The content of the page of topics: all by name, or those whose names contain `find`; `page` counts from 1."""
    names = sorted(name for name in seen.state.topic_ids if find.lower() in name.lower())
    cut = listed(names, page)
    rows = [topic_row(seen.state, topic_of(seen.state, name)) for name in cut.rows]
    return {"topics": Listed(rows, cut.total, cut.page, cut.pages), "find": find}


def topic(seen: Observation, name: str, page: int) -> dict[str, Any]:
    """The content of a topic's page, with page `page` of the list of partitions. Raises UnknownTopicOrPartition."""
    state = seen.state
    cut = listed(range(topic_of(state, name).partitions), page)
    described = describe_topic(state, name, cut.first - 1, ROWS)
    return {
        "topic": described,
        "partitions": Listed(list(described.partitions), cut.total, cut.page, cut.pages),
        "config": [(key, of.value, of.origin) for key, of in described.config.items() if of.origin != "default"],
        "quoted": shlex.quote(name),
        "next_cut_by_time_ms": next_cut_by_time_ms(state, topic_of(state, name)),
        "charts": topic_charts(seen, name) if seen.leads else [],
        "groups": list(map(group_row, group_lags(state).in_topic(described.topic_id, ROWS))),
    }


def stores(seen: Observation) -> dict[str, Any]:
    """The content of the page of stores: a row for each, by name."""
    return {"stores": seen_stores(seen)}


def chain(seen: Observation, tail: ChainTail | SparklogError, *, every: bool) -> dict[str, Any]:
    """The content of the page of the chain: the newest entries.

    If `every` is true, the page shows each entry in a row of its own. Otherwise it shows consecutive quiet entries of
    one author as one row: see the function `folded` in `chain_tail.py`.
    """
    return {"tail": tail, "charts": charts(seen), "every": every}


def jobs(seen: Observation) -> dict[str, Any]:
    """The content of the page of jobs: the last run of each, with its report."""
    return {"jobs": job_rows(seen.state)}


# ---- parts ------------------------------------------------------------------------------------------


def lead(seen: Observation) -> CoordinatorInForce:
    """A sentence that names the coordinator in force, or says that there is none, as far as this process knows."""
    known = seen.state.coordinator
    if seen.leads:
        return CoordinatorInForce(f"This process, {seen.name}, leads with epoch {known.epoch}.", True, "")
    if known.in_force:
        link = known.address if known.address.startswith(("http://", "https://")) else ""
        return CoordinatorInForce(f"This process stands by: {known.name} leads with epoch {known.epoch}.", False, link)
    return CoordinatorInForce(
        "No process coordinates the cluster at the moment: each client commits by itself.", False, ""
    )


def health(seen: Observation) -> Health:
    """The health of the cluster as this process sees it, in the words of `sparklog cluster health`.

    The command also tries to write to the stores; this function does not.
    """
    replication = replication_health(seen.state)
    of_stores = [
        store_findings(seen.state, store, [look.problem] if look.problem else [], look.free_bytes)
        for store, look in sorted(seen.looks.items())
    ]
    wrong = [text for findings in of_stores for text in findings.wrong] + replication.wrong + failed_jobs(seen.state)
    if seen.storage_failure:
        wrong.append(f"the newest write failed: {seen.storage_failure}")
    if seen.leads:
        wrong += stale_snapshot(seen.entries_since_snapshot)  # a standby does not learn of other processes' snapshots
    if seen.queued >= seen.queued_max:
        wrong.append(f"{counted(seen.queued, 'command')} wait, which is queued.max.requests: further ones are refused")
    late_ms = max((sample.lag_ms for sample in seen.samples[-60:]), default=0)
    remarks = [text for findings in of_stores for text in findings.remarks] + replication.remarks
    remarks += clock_remarks(seen.state.time_ms, seen.now_ms)
    if late_ms > LATE_MS:
        remarks.append(f"the event loop of this process was late by {late_ms / 1000:.1f} s in the last minute")
    return Health(wrong[:SENTENCES], remarks[:SENTENCES], len(wrong[SENTENCES:]), len(remarks[SENTENCES:]))


def charts(seen: Observation) -> list[Chart]:
    """Charts of the entries and commands that this process has committed in the last minutes."""
    seconds, every = _spans(seen)
    steps = rates(seen.samples, every)
    series = (
        ("Commits", "entries per second", [rate.entries for rate in steps]),
        ("Commands", "per second", [rate.commands for rate in steps]),
        ("Group size", "commands per entry", [rate.group for rate in steps]),
    )
    tail = "sparklog chain tail"
    return [chart(title, unit, tail, values, seconds // every, seconds) for title, unit, values in series]


def topic_charts(seen: Observation, name: str) -> list[Chart]:
    """Charts of the records and bytes that this process has appended to a topic in the last minutes."""
    seconds, every = _spans(seen)
    steps = appended_rates(seen.samples, every, seen.state.topic_ids[name])
    describe = f"sparklog topic describe {shlex.quote(name)}"
    series = (("Records", "appended per second", 0), ("Bytes", "stored per second", 1))
    return [
        chart(title, unit, describe, [rate[at] for rate in steps], seconds // every, seconds)
        for title, unit, at in series
    ]


def _spans(seen: Observation) -> tuple[int, int]:
    """The time span of a chart, and of one point in it, in seconds: the shortest chart with room for all samples."""
    return next((chart for chart in _CHARTS if len(seen.samples) <= chart[0]), _CHARTS[-1])


def seen_stores(seen: Observation) -> list[SeenStore]:
    """A row for each store, by id."""
    return [
        SeenStore(
            **structs.asdict(row),
            heard_ms_ago=seen.heard_ms_ago.get(row.store),
            free_bytes=None if (look := seen.looks.get(row.store)) is None else look.free_bytes,
        )
        for row in store_rows(seen.state, seen.replicas, partial(registered_url, seen.metadata))
    ]


def job_rows(state: ClusterState) -> list[JobRow]:
    """A row for the last run of each job, the newest run first; at most ROWS rows."""
    runs = sorted(state.jobs.values(), key=lambda run: run.ended_ms, reverse=True)[:ROWS]
    return [JobRow(run, _indented(run.report)) for run in runs]


def listed(rows: Sequence[T], page: int) -> Listed[T]:
    """The page of this list with the number `page`, from 1; the nearest existing page if there is no such page."""
    pages = max(1, -(-len(rows) // ROWS))
    page = min(max(page, 1), pages)
    return Listed(list(rows[(page - 1) * ROWS : page * ROWS]), len(rows), page, pages)


def late(seen: Observation) -> str:
    """The largest age of the data that a standby shows, a third of a session, as text: 3 s."""
    return span(seen.session_ms // 3)


def _first_topics(state: ClusterState) -> list[Topic]:
    """At most TOPICS_AT_FIRST topics, by name, but the unhealthy ones first.

    A topic is unhealthy if one of its partitions has no leader, or a replica that is not in sync.
    """
    ill: set[int] = set()
    for partition in state.partitions.values():
        value = partition.replication
        if value.leader is None or value.isr != value.replicas:
            ill.add(partition.topic_id)
    return sorted(state.topics.values(), key=lambda topic: (topic.topic_id not in ill, topic.name))[:TOPICS_AT_FIRST]


def _indented(report: str) -> str:
    try:
        text = msgspec.json.format(report.encode(), indent=2).decode()
    except msgspec.DecodeError:
        text = report
    left = len(text) - REPORT_CHARACTERS
    return text if left <= 0 else f"{text[:REPORT_CHARACTERS]}\n… and {counted(left, 'more character')}"
