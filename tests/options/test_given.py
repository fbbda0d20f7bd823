from __future__ import annotations

import pytest

from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import InvalidOption
from sparklog.options.connector import KAFKA_REFUSED
from sparklog.options.given import GivenOptions, Ignored, warning_of
from sparklog.options.registry import Side


def refusal(raw: dict[str, str], side: Side = Side.BATCH_READ) -> str:
    with pytest.raises(InvalidOption) as raised:
        GivenOptions(raw, side).cluster(None)
    return raised.value.message


@pytest.mark.parametrize("name", ["startingOffsets", "startingoffsets", "STARTINGOFFSETS"])
def test_names_match_without_case(name: str) -> None:
    given = GivenOptions({name: " earliest "}, Side.BATCH_READ)
    assert "startingOffsets" in given
    assert given.text("startingOffsets") == "earliest"


@pytest.mark.parametrize(
    ("name", "side", "told"),
    [
        ("startingOffset", Side.BATCH_READ, "not an option of a batch read; did you mean startingOffsets?"),
        ("txnversoin", Side.BATCH_WRITE, "not an option of a batch write; did you mean txnVersion?"),
        ("bootstrap.servers", Side.BATCH_READ, "not an option of a batch read; did you mean kafka.bootstrap.servers?"),
        ("checkpointLocatoin", Side.BATCH_WRITE, "not an option of a batch write; did you mean checkpointLocation?"),
        (
            "zzz",
            Side.BATCH_WRITE,
            "not an option of a batch write; there are cluster, cluster.token, cluster.ca, topic, acks",
        ),
        ("path", Side.BATCH_READ, "a batch read takes no path; name the cluster with the option cluster and its topic"),
    ],
)
def test_unknown_option_is_refused_and_the_nearest_offered(name: str, side: Side, told: str) -> None:
    assert refusal({name: "1"}, side).startswith(f"{name}: {told}")


def test_options_of_the_other_side_and_of_streams_change_nothing_and_are_named() -> None:
    stream = {"checkpointlocation": "/c", "querYName": "q", "maxOffsetsPerTrigger": "5"}
    write = GivenOptions({"includeheaders": "maybe", "startingOffsets": "latest", **stream}, Side.BATCH_WRITE)
    assert write.names() == []
    assert write.ignored() == (
        Ignored("checkpointLocation", "a batch has no checkpoint"),
        Ignored("includeHeaders", "an option of a read"),
        Ignored("maxOffsetsPerTrigger", "an option of a stream read"),
        Ignored("queryName", "a batch is not a streaming query"),
        Ignored("startingOffsets", "an option of a read"),
    )
    read = GivenOptions({"topic": "t", "kafka.acks": "0", "TXNAPPID": "a", "groupid": "g", **stream}, Side.BATCH_READ)
    assert [each.name for each in read.ignored() if each.name not in ("checkpointLocation", "queryName")] == [
        "groupId",
        "kafka.acks",
        "maxOffsetsPerTrigger",
        "topic",
        "txnAppId",
    ]


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("name", ["path", "paths"])
def test_a_path_is_ignored_beside_a_cluster_and_never_taken_for_one(name: str, side: Side) -> None:
    """Of `load(path)` and `save(path)`: with an address from the environment alone, the user may mean another log."""
    for address in ("cluster", "kafka.bootstrap.servers"):
        given = GivenOptions({name: "/a", address: "/c"}, side)
        assert given.cluster(None) == "/c"
        assert given.ignored() == (Ignored(name, "the option cluster says where the log is"),)
    with pytest.raises(InvalidOption, match=f"{name}: a {side} takes no path; name the cluster with the option"):
        GivenOptions({name: "/a"}, side).cluster("/from/the/environment")


@pytest.mark.parametrize("side", list(Side))
def test_what_sparks_connector_refuses_is_refused_on_its_side(side: Side) -> None:
    for name in KAFKA_REFUSED[side]:
        assert refusal({name.upper(): "x"}, side).startswith(f"{name.upper()}: not supported, as in Spark's Kafka")


def test_other_settings_of_kafka_are_ignored_with_one_warning() -> None:
    given = GivenOptions(
        {"kafka.group.id": "g", "kafka.security.protocol": "SSL", "groupIdPrefix": "p", "maxOffsetsPerTrigger": "5"},
        Side.BATCH_READ,
    )
    assert given.names() == []
    assert given.ignored() == (
        Ignored("groupIdPrefix", "a read joins no consumer group; with groupId a stream commits its position to one"),
        Ignored("kafka.group.id", "a setting of Kafka's clients"),
        Ignored("kafka.security.protocol", "a setting of Kafka's clients"),
        Ignored("maxOffsetsPerTrigger", "an option of a stream read"),
    )
    warning = warning_of(given.ignored())
    assert warning is not None
    assert warning.startswith("options without effect in sparklog: groupIdPrefix (a read joins no consumer group")
    assert warning_of(()) is None


def test_kafkas_acks_and_compression_map_to_the_writers_options() -> None:
    given = GivenOptions({"kafka.acks": "all", "Kafka.Compression.Type": "lz4"}, Side.BATCH_WRITE)
    assert (given.text("acks"), given.text("compression"), given.ignored()) == ("all", "lz4", ())
    assert "acks" not in GivenOptions({"kafka.acks": "1"}, Side.BATCH_READ)


def test_an_option_goes_before_its_kafka_alias() -> None:
    for raw in ({"acks": "all", "kafka.acks": "1"}, {"kafka.acks": "1", "acks": "all"}):
        given = GivenOptions(raw, Side.BATCH_WRITE)
        assert given.text("acks") == "all"
        assert given.ignored() == (Ignored("kafka.acks", "acks is given"),)


def test_cluster_comes_from_the_option_its_alias_or_the_default() -> None:
    assert GivenOptions({"cluster": "/a"}, Side.BATCH_READ).cluster("/b") == "/a"
    assert GivenOptions({"kafka.bootstrap.servers": "file:///a"}, Side.BATCH_READ).cluster("/b") == "file:///a"
    assert GivenOptions({}, Side.BATCH_READ).cluster("/b") == "/b"
    assert refusal({}).startswith("cluster: wanted the address of a cluster (option cluster, or SPARKLOG_CLUSTER")


@pytest.mark.parametrize(
    "address", ["host:9092", "10.0.0.1:9092, host2:9093", "SASL_SSL://host:9092", "localhost:9092"]
)
def test_a_kafka_address_is_answered_with_what_a_cluster_is(address: str) -> None:
    assert refusal({"kafka.bootstrap.servers": address}) == (
        f"kafka.bootstrap.servers: '{address}' is a Kafka address; "
        "cluster is file://, s3://, gs://, abfs://, hdfs:// or http://"
    )


@pytest.mark.parametrize(
    "address", ["http://host:8080", "hdfs://name:8020/log", "s3://bucket/prefix", "/a:9092", "a/b"]
)
def test_other_addresses_are_left_to_the_stores(address: str) -> None:
    assert GivenOptions({"cluster": address}, Side.BATCH_READ).cluster(None) == address


def test_a_cluster_in_one_process_is_refused_because_tasks_run_in_others() -> None:
    assert refusal({"cluster": "memory://x"}).startswith("cluster: 'memory://x' lives in one process")


def test_secrets_are_kept_apart_and_never_shown() -> None:
    given = GivenOptions(
        {
            "storage.Zone-A.secret_access_key": "s3cr3t",
            "storage.zone-a.region": "eu",
            "storage.zone.b.password": "pass",
            "cluster.token": "tok",
        },
        Side.BATCH_WRITE,
    )
    storage = given.storage()
    assert storage.plain == {"zone-a.region": "eu"}
    assert storage.secret == {"zone-a.secret_access_key": "s3cr3t", "zone.b.password": "pass"}
    assert storage.token == "tok"
    for shown in (repr(storage), str(storage), f"{[storage]}"):
        assert "eu" in shown
        for secret in ("s3cr3t", "pass'", "tok'"):
            assert secret not in shown
    assert storage.without_secrets() == StorageSettings(plain={"zone-a.region": "eu"})


@pytest.mark.parametrize("name", ["storage.x", "storage.", "storage..region", "storage.x."])
def test_a_setting_of_no_store_is_refused_without_its_value(name: str) -> None:
    assert refusal({name: "s3cr3t"}) == f"{name}: wanted storage.<store>.<key>, found no store or no key in it"
