"""`/metrics`: what Prometheus scrapes is documented, right, and bounded."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.watching.activity import Activity, Distribution, Sample, rates
from sparklog.coordinator.watching.metric_names import METRICS
from sparklog.coordinator.watching.metrics import MOST_JOBS, exposition
from sparklog.coordinator.watching.observation import observe
from sparklog.core.commands import CreateTopic
from sparklog.core.placement.counts import replica_counts
from sparklog.core.records import JobRan
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.types import LeaderEpoch, StoreId
from sparklog.wire.messages import SUBMIT
from tests.chain.chain_kit import Member, append, new_chain
from tests.client.replicated_cluster import write
from tests.coordinator.asgi import request
from tests.coordinator.http.test_app import served, submit_request
from tests.kit.log import new_cluster

Scraped = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture
def chain() -> Member:
    return new_chain()


def parsed(text: str) -> Scraped:
    """The value of each sample, by its name and the values of its labels."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scraped(app: Starlette) -> Scraped:
    return parsed((await request(app, "GET", "/metrics")).body.decode())


def test_every_metric_is_documented_and_every_documented_one_is_there(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> bytes:
        service.follower.snapshot_time_ms = 1
        return (await request(app, "GET", "/metrics")).body

    text = served(chain, work).decode()
    shown = {
        (match[1], match[2]) for match in re.finditer(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    }  # the parser leaves "_total" out
    assert shown == {(metric.name, metric.kind) for metric in METRICS}
    for family in text_string_to_metric_families(text):
        documented = next(
            metric for metric in METRICS if metric.name.removesuffix("_total") == family.name.removesuffix("_total")
        )
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(documented.labels)
            assert not {"job", "instance"} & set(sample.labels)  # Prometheus' own: it would rename ours


# M: F-02
def test_commits_and_refusals_are_counted(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> tuple[Scraped, Scraped]:
        before = await scraped(app)
        for _ in range(3):
            await request(app, "POST", SUBMIT, [submit_request(chain, append())])
        await request(app, "POST", SUBMIT, [submit_request(chain, CreateTopic("orders"))])
        await request(app, "GET", "/no/such/path")
        return before, await scraped(app)

    before, after = served(chain, work)
    assert after["sparklog_active_controller", ()] == after["sparklog_coordinator_epoch", ()] == 1
    assert after["sparklog_chain_position", ()] == before["sparklog_chain_position", ()] + 3
    assert after["sparklog_commits_total", ()] == 4  # the claim, too
    assert after["sparklog_commit_commands_count", ()] == after["sparklog_commit_commands_bucket", ("1.0",)] == 4
    assert after["sparklog_submit_duration_seconds_bucket", ("+Inf",)] == 3
    assert after["sparklog_refused_requests_total", ("TOPIC_ALREADY_EXISTS",)] == 1
    assert after["sparklog_requests_total", (SUBMIT, "200")] == 4  # a command that is refused is no request that failed
    assert after["sparklog_requests_total", ("other", "404")] == 1
    assert (after["sparklog_queued_commands", ()], after["sparklog_queued_commands_limit", ()]) == (0, 10)
    assert after["sparklog_connected_agents", ()] == 0
    assert after["sparklog_stores", ("new",)] == 1


def test_a_process_that_does_not_lead_says_so(chain: Member) -> None:
    found = served(chain, lambda service, app: scraped(app), leads=False)
    assert found["sparklog_active_controller", ()] == found["sparklog_coordinator_in_force", ()] == 0
    assert found["sparklog_partitions", ()] == 2


def test_a_scraper_may_ask_for_open_metrics(chain: Member) -> None:
    async def work(service: Service, app: Starlette) -> Any:
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        return await request(app, "GET", "/metrics", headers=accept)

    answer = served(chain, work)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert {family.name for family in open_metrics_families(answer.body.decode())} >= {"sparklog_commits"}


def test_names_of_jobs_are_escaped_and_few(chain: Member) -> None:
    hostile = 'x"} 1\nsparklog_active_controller 7\n\\'

    async def work(service: Service, app: Starlette) -> bytes:
        state = service.follower.state.fork()
        for at in range(2 * MOST_JOBS):
            state.jobs[f"{hostile}{at}"] = JobRan(f"{hostile}{at}", 1_000, 3_000 + at, at, "{}")
        seen = observe(service, 5_000)
        return exposition(type(seen)(**{**vars(seen), "state": state}), "")[0]

    found = parsed(served(chain, work).decode())
    runs = {
        labels: value for (name, labels), value in found.items() if name == "sparklog_job_last_run_failed_partitions"
    }
    assert runs == {(f"{hostile}{at}",): at for at in range(MOST_JOBS, 2 * MOST_JOBS)}
    assert found["sparklog_active_controller", ()] == 1


def test_replicas_are_counted_as_kafka_does() -> None:
    with new_cluster("abc") as cluster:
        cluster.create_topic("t", partitions=4, replication_factor=3, config={"min.insync.replicas": "2"})
        write(cluster, *"abcdefgh")
        state = cluster.connection.follower.state.fork()
    a, b, c = (StoreId(name) for name in "abc")
    in_sync = [(a, b, c), (a, b), (a,), ()]
    for (key, partition), isr in zip(sorted(state.partitions.items()), in_sync, strict=True):
        end = partition.next_offset
        changed = msgspec.structs.replace(
            partition.replication,
            leader=isr[0] if isr else None,
            isr=isr,
            log_ends=tuple(end if store in isr else 0 for store in partition.replication.replicas),
        )
        state.partitions[key] = msgspec.structs.replace(partition, replication=changed)
    counts = replica_counts(state)
    assert (counts.partitions, counts.offline, counts.under_min_isr, counts.under_replicated) == (4, 1, 2, 3)
    ends = [partition.next_offset for _, partition in sorted(state.partitions.items())]
    assert counts.stores[c].lag_records == sum(ends[1:])
    assert counts.stores[c].max_lag_records == max(ends[1:])
    assert [counts.stores[store].leaders for store in (a, b, c)] == [3, 0, 0]
    assert [counts.stores[store].behind for store in (a, b, c)] == [sum(map(bool, ends[at:])) for at in (3, 2, 1)]


def test_changes_of_isrs_and_leaders_are_counted_between_two_states() -> None:
    with new_cluster("ab") as cluster:
        cluster.create_topic("t", partitions=3, replication_factor=2)
        before = cluster.connection.follower.state
    a, b = StoreId("a"), StoreId("b")
    first, second, _ = sorted(before.partitions)

    def with_changes(**changes: Any) -> Any:
        after = before.fork()
        after.partitions = CopyOnWriteMap(dict(before.partitions.items()))
        for key in (first, second):
            partition = after.partitions[key]
            replication = msgspec.structs.replace(partition.replication, **changes)
            after.partitions[key] = msgspec.structs.replace(partition, replication=replication)
        return after

    activity = Activity()
    for state in (
        before,
        before,
        with_changes(isr=(a,)),
        with_changes(isr=(b,), leader=b, leader_epoch=LeaderEpoch(1)),
    ):
        activity.observe(state)
    assert (activity.isr_shrinks, activity.isr_expands, activity.elections) == (4, 2, 2)


def test_a_distribution_counts_up_to_each_bound() -> None:
    distribution = Distribution((1, 10))
    for value in (0, 1, 2, 10, 11, 500):
        distribution.add(value)
    assert (distribution.counts, distribution.total) == ([2, 2, 2], 524)


def test_rates_are_per_second_and_begin_anew_with_the_counts() -> None:
    samples = [
        Sample(1_000, 0, 0, 0, 0),
        Sample(2_000, 5, 10, 0, 0),
        Sample(4_000, 9, 40, 0, 0),
        Sample(5_000, 2, 2, 0, 0),
    ]
    assert [(each.entries, each.commands, each.group) for each in rates(samples, 1)] == [
        (5, 10, 2),
        (2, 15, 7.5),
        (2, 2, 1),
    ]
    assert [each.at_ms for each in rates(samples, 2)] == [5_000]
    assert rates(samples[:1], 1) == []
