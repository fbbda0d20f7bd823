"""The Python client on a memory cluster: appends, reads, topics."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Iterator
from itertools import cycle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.core.describe.topic_rows import EffectiveValue
from sparklog.core.errors import (
    InvalidConfig,
    InvalidInput,
    InvalidPartitions,
    InvalidRecord,
    InvalidTopic,
    Landed,
    OffsetOutOfRange,
    RecordTooLarge,
    SparklogError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from sparklog.log import cluster_stores
from sparklog.storage.memory import MemoryStore
from tests.kit import log
from tests.kit.log import new_cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with new_cluster() as made:
        yield made


def rows(*values: str, partition: int | None = None, **more: object) -> pa.Table:
    return log.rows(values, partition, **more)


def values(table: pa.Table) -> list[str]:
    return [each.decode() for each in table["value"].to_pylist()]


Interleaving = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=6)),
    min_size=1,
    max_size=12,
)


@given(appends=Interleaving)
@settings(max_examples=25)
def test_any_interleaving_of_writers_gives_dense_offsets_and_keeps_each_writers_order(
    appends: list[tuple[int, list[tuple[int, int]]]],
) -> None:  # M: S-03 I-06
    with new_cluster() as first:
        first.create_topic("t", partitions=3)
        writers = [first, connect(first.connection.url), connect(first.connection.url)]
        model: dict[int, list[str]] = {0: [], 1: [], 2: []}
        for number, (writer, records) in enumerate(appends):
            table = pa.table(
                {
                    "value": [f"{writer}/{number}/{at}-{repeat}" for at, (_, repeat) in enumerate(records)],
                    "partition": pa.array([partition for partition, _ in records], pa.int32()),
                }
            )
            result = writers[writer].append("t", table)
            for value, partition in zip(table["value"].to_pylist(), table["partition"].to_pylist(), strict=True):
                model[partition].append(value)
            for each in result.ranges:
                assert each.end == len(model[each.partition])
        every = ((at, start, end) for at in model for end in range(len(model[at]) + 1) for start in range(end + 1))
        for (partition, start, end), reader in zip(every, cycle(writers), strict=False):
            found = reader.read("t", partition=partition, start=start, end=end, columns=["value", "offset"])
            assert values(found) == model[partition][start:end]
            assert found["offset"].to_pylist() == list(range(start, end))


def test_the_packages_connect_takes_what_the_clients_takes() -> None:
    wanted, found = (inspect.signature(each).parameters for each in (connect, sparklog.connect))
    assert {name: each.default for name, each in found.items()} == {name: each.default for name, each in wanted.items()}


def test_an_append_over_several_topics_is_one_entry_of_the_chain(cluster: Cluster) -> None:  # M: I-03
    cluster.create_topic("a", partitions=2)
    cluster.create_topic("b", partitions=1)
    before = cluster.connection.follower.state.n
    cluster.append(None, rows("1", "2", "3", topic=pa.array(["a", "b", "a"]), key=pa.array(["k", "k", "k"])))
    assert cluster.connection.follower.state.n == before + 1
    assert values(cluster.read("b", partition=0)) == ["2"]
    assert cluster.describe("a").records == 2


def test_a_read_at_the_end_returns_nothing_and_no_error(cluster: Cluster) -> None:  # M: S-10
    cluster.create_topic("t")
    cluster.append("t", rows("1", "2"))
    assert cluster.read("t", partition=0, start=2, end=2).num_rows == 0
    assert cluster.read("t", partition=0, start=2).num_rows == 0


@pytest.mark.parametrize(("start", "end"), [(0, 3), (3, 3), (2, 1), (5, None)])
def test_a_read_outside_the_log_is_out_of_range(cluster: Cluster, start: int, end: int | None) -> None:  # M: S-10
    cluster.create_topic("t")
    cluster.append("t", rows("1", "2"))
    with pytest.raises(OffsetOutOfRange, match="t-0"):
        cluster.read("t", partition=0, start=start, end=end)


def test_a_repeat_of_a_producers_append_returns_the_original_offsets(cluster: Cluster) -> None:  # M: I-01
    cluster.create_topic("t", partitions=8)
    producer = cluster.allocate_producer()

    def append(first: int, *values: str) -> list[tuple[int, int, int]]:
        placed = rows(*values).append_column("partition", pa.array([5] * len(values), pa.int32()))
        found = cluster.append("t", placed, producer=(*producer, first))
        return [(each.partition, each.start, each.end) for each in found.ranges]

    assert append(0, "1", "2") == append(0, "1", "2") == [(5, 0, 2)]
    cluster.add_partitions("t", 9)
    assert append(0, "1", "2") == [(5, 0, 2)]
    assert append(2, "3") == [(5, 2, 3)]
    assert values(cluster.read("t", partition=5)) == ["1", "2", "3"]
    assert cluster.describe("t").records == 3


@pytest.mark.parametrize(
    ("partitions", "text"),
    [([0, 1], "one partition"), ([0, None], "names its partition"), (None, "names its partition")],
)
def test_a_producers_append_names_one_partition(
    cluster: Cluster, partitions: list[int | None] | None, text: str
) -> None:
    """Without it a repeat would be routed anew: to another partition, which knows nothing of the first one."""
    cluster.create_topic("t", partitions=2)
    given = rows("1", "2")
    if partitions is not None:
        given = given.append_column("partition", pa.array(partitions, pa.int32()))
    with pytest.raises(InvalidInput, match=text):
        cluster.append("t", given, producer=(0, 0, 0))
    assert cluster.describe("t").records == 0


def test_an_application_version_is_written_once(cluster: Cluster) -> None:  # M: I-03
    cluster.create_topic("t")
    first = cluster.append("t", rows("1"), application=("app", 3))
    again = cluster.append("t", rows("1"), application=("app", 3))
    older = cluster.append("t", rows("0"), application=("app", 2))
    assert (first.n, first.ranges) == (again.n, again.ranges) == (older.n, older.ranges)
    assert values(cluster.read("t", partition=0)) == ["1"]


def test_the_same_key_lands_where_kafkas_producer_puts_it(cluster: Cluster) -> None:  # M: S-07
    cluster.create_topic("t", partitions=6)
    cluster.append("t", rows("x", key=pa.array(["foobar"])))
    murmur2_of_foobar = -790332482  # Kafka's UtilsTest
    partition = (murmur2_of_foobar & 0x7FFFFFFF) % 6
    assert values(cluster.read("t", partition=partition)) == ["x"]


def test_append_time_is_laid_over_the_timestamps(cluster: Cluster) -> None:
    cluster.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    result = cluster.append("t", rows("1", timestamp=pa.array([5], pa.timestamp("us", "UTC"))))
    found = cluster.read("t", partition=0)
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [result.time_ms * 1000]
    assert found["timestampType"].to_pylist() == [1]


def test_time_look_up_finds_the_first_record_by_offset(cluster: Cluster) -> None:  # M: S-05
    cluster.create_topic("t")
    for times in ([30, 10], [20, 50, 40]):
        stamps = pa.array([each * 1000 for each in times], pa.timestamp("us", "UTC"))
        cluster.append("t", rows(*map(str, times), timestamp=stamps))
    found = {at: cluster.offsets_for_times("t", at)[0] for at in (0, 10, 25, 31, 45, 50, 51)}
    assert found == {0: 0, 10: 0, 25: 0, 31: 3, 45: 3, 50: 3, 51: None}


def test_a_deleted_topic_created_again_is_another_topic(cluster: Cluster) -> None:  # M: N-03
    first = cluster.create_topic("t")
    cluster.append("t", rows("old"))
    plan = cluster.scan("t", partition=0)
    cluster.delete_topic("t")
    second = cluster.create_topic("t")
    assert second.topic_id > first.topic_id
    assert cluster.read("t", partition=0).num_rows == 0
    assert plan.read_all().num_rows == 1  # its objects wait for file.delete.delay.ms


def test_partitions_are_added_and_configs_altered(cluster: Cluster) -> None:  # M: N-03
    cluster.create_topic("t", partitions=2, config={"retention.ms": 1000})
    cluster.add_partitions("t", 5)
    cluster.alter("t", config={"retention.ms": None, "segment.bytes": 1000})
    found = cluster.describe("t")
    assert len(found.partitions) == 5
    assert found.config["segment.bytes"] == EffectiveValue("1000", "topic")
    assert found.config["retention.ms"] == EffectiveValue("604800000", "default")


# M: N-03
def test_bad_input_names_what_is_legal_and_changes_nothing(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=2, config={"max.message.bytes": 100})
    cluster.create_topic("compacted", config={"cleanup.policy": "compact"})
    before = cluster.connection.follower.state.n
    wrong = [
        (lambda: cluster.create_topic("t"), TopicAlreadyExists, "exists"),
        (lambda: cluster.create_topic("a b"), InvalidTopic, "a-z"),
        (lambda: cluster.create_topic("n", partitions=0), InvalidPartitions, "found 0"),
        (lambda: cluster.create_topic("n", config={"retention.mss": 1}), InvalidConfig, r"retention\.ms"),
        (lambda: cluster.add_partitions("t", 2), InvalidPartitions, "only grow"),
        (lambda: cluster.append("u", rows("1")), UnknownTopicOrPartition, "'u'"),
        (lambda: cluster.append("t", rows("1", partition=2)), UnknownTopicOrPartition, "2"),
        (lambda: cluster.append("t", rows("x" * 101)), RecordTooLarge, "100"),
        (lambda: cluster.append("t", pa.table({"valeu": ["1"]})), InvalidInput, "value"),
        (lambda: cluster.append("t", pa.table({"value": [1]})), InvalidInput, "value"),
        (lambda: cluster.append("compacted", rows("1")), InvalidRecord, "key"),
        (lambda: cluster.append(None, rows("1")), InvalidInput, "topic"),
        (lambda: cluster.read("t", partition=2), UnknownTopicOrPartition, "0 to 1"),
        (lambda: cluster.read("t", partition=0, columns=["ofset"]), InvalidInput, "offset"),
    ]
    for call, kind, text in wrong:
        with pytest.raises(kind, match=text):
            call()
    cluster.connection.follower.catch_up()
    assert cluster.connection.follower.state.n == before


def test_importing_sparklog_loads_no_heavy_library() -> None:
    import subprocess
    import sys

    heavy = "{'pyarrow', 'numpy', 'pyspark', 'fsspec', 's3fs', 'pandas'}"
    code = f"import sys, sparklog; sys.exit(str({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_connect_asks_for_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARKLOG_CLUSTER", raising=False)
    with pytest.raises(InvalidInput, match="SPARKLOG_CLUSTER"):
        sparklog.connect()


# ---- values of the wrong type --------------------------------------------------------------------


@pytest.mark.parametrize(
    "named",
    [
        {"write_id": None},
        {"write_id": 5},
        {"application": ("a", "1")},
        {"application": ("a", 1.5)},
        {"application": ("a", True)},
        {"application": ("a", 2**64)},
        {"application": (None, 1)},
        {"application": ("\ud800", 1)},
        {"producer": (0, 0.0, 0)},
        {"producer": (0, 0, 0.0)},
        {"producer": (True, 0, 0)},
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_refused_and_the_chain_can_still_be_read(
    cluster: Cluster, named: dict[str, object]
) -> None:
    """Entries are there for good: one that nobody can decode would end the cluster."""
    cluster.create_topic("t")
    cluster.allocate_producer()
    with pytest.raises(SparklogError) as raised:
        cluster.append("t", rows("a"), **named)  # type: ignore[arg-type]
    assert raised.value.landed is Landed.NO
    with connect(cluster.connection.url) as anew:
        anew.append("t", rows("b"))
        anew.connection.committer.snapshots.write()
        assert values(anew.read("t", partition=0)) == ["b"]


@pytest.mark.parametrize("total", [2.5, 3.0, "3"])
def test_a_number_of_partitions_that_is_none_is_refused(cluster: Cluster, total: object) -> None:
    cluster.create_topic("t", partitions=1)
    with pytest.raises(InvalidInput, match="wrong type"):
        cluster.add_partitions("t", total)  # type: ignore[arg-type]
    assert len(cluster.describe("t").partitions) == 1


def test_an_append_opens_stores_with_the_secrets_that_its_program_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan, which travels to tasks of other processes, has none of them."""
    root = uuid.uuid4().hex
    init_cluster(f"memory://{root}", stores={"a": f"memory://{root}-a"})
    opened: list[dict[str, str]] = []

    def open_store(url: str, given: dict[str, str]) -> MemoryStore:
        if url.endswith("-a"):
            opened.append(dict(given))
        return MemoryStore(url)

    monkeypatch.setattr(cluster_stores, "open_store", open_store)
    secrets = {"access_key_id": "id", "secret_access_key": "secret"}
    with connect(f"memory://{root}", storage={f"a.{key}": value for key, value in secrets.items()}) as cluster:
        cluster.create_topic("t")
        cluster.append("t", pa.table({"value": ["x"]}))
    assert opened
    assert all(settings == secrets for settings in opened)
