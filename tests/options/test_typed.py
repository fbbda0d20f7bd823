from __future__ import annotations

import pickle

import pytest

from sparklog.core.errors import InvalidOption, InvalidTopic
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import Offset, PartitionIndex
from sparklog.options.given import Ignored
from sparklog.options.starting_offsets import AtOffset, AtTimestamp, Earliest, EveryPartition, Latest
from sparklog.options.typed import (
    ApplicationVersion,
    AssignPartitions,
    ConsumedOffsets,
    ReadOptions,
    SubscribePattern,
    SubscribeTopics,
    WriteOptions,
    parse_read_options,
    parse_write_options,
)


def read(**raw: str) -> ReadOptions:
    return parse_read_options({"cluster": "/c", **raw})


def read_orders(**raw: str) -> ReadOptions:
    return read(subscribe="orders", **raw)


def write(**raw: str) -> WriteOptions:
    return parse_write_options({"cluster": "/c", **raw})


def test_defaults_of_a_batch_read_are_sparks() -> None:
    options = read_orders()
    assert options.subscription == SubscribeTopics(("orders",))
    assert (options.start, options.end) == (EveryPartition(Earliest()), EveryPartition(Latest()))
    assert (options.start_option, options.end_option) == ("startingOffsets", "endingOffsets")
    assert options.fail_on_data_loss
    assert not options.start_at_latest_if_none
    assert (options.min_partitions, options.max_records_per_partition) == (None, 1_000_000)
    assert options.max_bytes_per_partition == 128 << 20
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert (options.metadata, options.ignored) == (None, ())


def test_the_zone_is_kafkas_client_rack() -> None:
    assert read_orders().zone == ""
    assert read_orders(zone="eu-1").zone == "eu-1"
    assert read_orders(**{"kafka.client.rack": "eu-1"}).zone == "eu-1"
    with pytest.raises(InvalidOption, match="zone: wanted the zone of a store, found ''"):
        read_orders(zone="")


def test_all_options_of_a_read_are_typed_and_match_without_case() -> None:
    options = read_orders(
        startingoffsets='{"orders":{"0":23}}',
        ENDINGOFFSETS='{"orders":{"0":-1}}',
        failondataloss="FALSE",
        minPartitions="4",
        maxRecordsPerPartition="1000",
        maxBytesPerPartition="64m",
        includeHeaders="true",
        startingOffsetsByTimestampStrategy="LATEST",
    )
    assert options.start.at("orders", 0) == AtOffset(Offset(23))
    assert options.end.at("orders", 0) == Latest()
    assert not options.fail_on_data_loss
    assert (options.min_partitions, options.max_records_per_partition) == (4, 1000)
    assert options.max_bytes_per_partition == 64 << 20
    assert options.columns[-1] == "headers"
    assert options.start_at_latest_if_none


def test_topics_pattern_and_partitions_can_be_read() -> None:
    assert read(subscribe=" a, b,,a ").subscription == SubscribeTopics(("a", "b"))
    assert read(subscribePattern="or.*").subscription == SubscribePattern("or.*")
    assert read(assign='{"a":[1,0]}').subscription == AssignPartitions({"a": (PartitionIndex(0), PartitionIndex(1))})


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({}, "wanted exactly one of the options assign, subscribe, subscribePattern (or metadata), found none of them"),
        ({"subscribe": "t", "subscribePattern": "t"}, "wanted exactly one of the options"),
        ({"subscribe": "t", "assign": '{"a":[0]}'}, "wanted exactly one of the options"),
        ({"subscribe": " , "}, "subscribe: wanted topics separated by commas, found ' , '"),
        ({"subscribePattern": " "}, "subscribePattern: wanted a regular expression (Python's), found ' '"),
        ({"subscribePattern": "("}, "subscribePattern: wanted a regular expression (Python's), found '(': missing )"),
        ({"assign": ""}, "assign: wanted partitions by topic like"),
    ],
)
def test_what_to_read_must_be_said_once(raw: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        read(**raw)
    assert raised.value.message.startswith(told)


# The order of preference of Spark's `getKafkaOffsetRangeLimit`, for both ends.
def test_a_timestamp_goes_before_timestamps_by_partition_before_offsets() -> None:
    raw = {
        "startingTimestamp": "1",
        "startingOffsetsByTimestamp": '{"orders":{"0":2}}',
        "startingOffsets": "latest",
        "endingTimestamp": "11",
        "endingOffsetsByTimestamp": '{"orders":{"0":12}}',
        "endingOffsets": "earliest",
    }
    options = read_orders(**raw)
    assert (options.start_option, options.end_option) == ("startingTimestamp", "endingTimestamp")
    assert (options.start.at("orders", 0), options.end.at("orders", 0)) == (AtTimestamp(1_000), AtTimestamp(11_000))
    assert Ignored("startingOffsets", "startingTimestamp takes precedence") in options.ignored
    assert len(options.ignored) == 4
    del raw["startingTimestamp"], raw["endingTimestamp"]
    options = read_orders(**raw)
    assert (options.start.at("orders", 0), options.end.at("orders", 0)) == (AtTimestamp(2_000), AtTimestamp(12_000))
    assert options.start_option == "startingOffsetsByTimestamp"


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets: a batch read can't start at latest (-1)"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets: t-0: a batch read can't start at latest (-1)"),
        ({"endingOffsets": "earliest"}, "endingOffsets: a batch read can't end at earliest (-2)"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets: t-0: a batch read can't end at earliest (-2)"),
        ({"startingTimestamp": "2025-01-01T00:00:00"}, "startingTimestamp: wanted a time with its zone"),
        (
            {"startingTimestamp": "2", "endingTimestamp": "1"},
            "startingTimestamp and endingTimestamp: wanted a start not",
        ),
        (
            {"startingOffsetsByTimestampStrategy": "x"},
            "startingOffsetsByTimestampStrategy: wanted one of error, latest",
        ),
        ({"minPartitions": "0"}, "minPartitions: wanted an integer >= 1, found '0'"),
        ({"maxRecordsPerPartition": "-5"}, "maxRecordsPerPartition: wanted an integer >= 1, found '-5'"),
        ({"maxBytesPerPartition": "big"}, "maxBytesPerPartition: wanted bytes (a number, or like 512k, 128m, 1g) >= 1"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss: wanted true or false, found 'maybe'"),
        (
            {"startingOffset": "earliest"},
            "startingOffset: not an option of a batch read; did you mean startingOffsets?",
        ),
    ],
)
def test_bad_options_of_a_read_are_refused_by_name(raw: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        read_orders(**raw)
    assert raised.value.message.startswith(told)


def test_columns_are_chosen_in_their_order() -> None:
    assert read_orders(columns="Offset, timestamptype").columns == ("offset", "timestampType")
    assert read_orders(columns="headers").columns == ("headers",)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("key,vaule", "found 'vaule'; did you mean value?"),
        ("key,", "found ''"),
        ("key,key", "separated by commas, found 'key,key'"),
    ],
)
def test_unknown_or_repeated_columns_are_refused(columns: str, told: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        read_orders(columns=columns)
    assert raised.value.message.endswith(told)


def test_headers_asked_for_but_not_among_the_columns_are_refused() -> None:
    with pytest.raises(InvalidOption, match="includeHeaders is true, but headers is not among key"):
        read_orders(columns="key", includeHeaders="true")
    assert read_orders(columns="key,headers", includeHeaders="true").columns == ("key", "headers")


def test_a_zone_does_not_keep_anybody_from_reading_metadata() -> None:
    options = read(**{"metadata": "topics", "kafka.client.rack": "eu-1"})
    assert [each.name for each in options.ignored] == ["kafka.client.rack"]


def test_metadata_is_read_instead_of_records() -> None:
    options = read(metadata="Segments")
    assert (options.metadata, options.subscription, options.columns) == ("segments", None, ())
    with pytest.raises(
        InvalidOption, match="wanted one of topics, partitions, replicas, segments, groups, writes, chain, found"
    ):
        read(metadata="offsets")
    with pytest.raises(
        InvalidOption, match=r"shows the whole cluster .*, found subscribe, columns: filter the DataFrame"
    ):
        read(metadata="topics", subscribe="a", columns="key")


def test_defaults_of_a_write() -> None:
    options = write()
    assert (options.topic, options.acks, options.compression) == (None, Acks.ALL, None)
    assert (options.timeout_ms, options.write_id, options.transaction) == (120_000, None, None)


def test_all_options_of_a_write_are_typed() -> None:
    options = write(
        topic=" orders ", acks="-1", compression="LZ4", timeoutMs="5", writeId="w", txnAppId="app", txnVersion="0"
    )
    assert (options.topic, options.acks, options.compression) == ("orders", Acks.ALL, "lz4")
    assert (options.timeout_ms, options.write_id, options.transaction) == (5, "w", ApplicationVersion("app", 0))


def test_a_batch_says_what_it_was_made_from() -> None:
    options = write(groupid="billing", consumedoffsets='{"orders":{"0":23,"1":0}}')
    assert options.consumed == ConsumedOffsets("billing", {"orders": {0: 23, 1: 0}})
    alone = write(groupId="billing")
    assert alone.consumed is None
    assert [each.name for each in alone.ignored] == ["groupId"]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"consumedOffsets": '{"t":{"0":1}}'}, "groupId: wanted groupId and consumedOffsets together"),
        ({"groupId": "g", "consumedOffsets": "latest"}, "consumedOffsets: wanted offsets by partition like"),
        ({"groupId": "g", "consumedOffsets": '{"t":{"0":-1}}'}, "consumedOffsets: wanted offsets by partition like"),
        ({"groupId": "g", "consumedOffsets": "{}"}, "consumedOffsets: wanted"),
        ({"groupId": "g", "consumedOffsets": '{"t":{"0":"x"}}'}, "consumedOffsets: t-0: wanted"),
        ({"kafka.acks": "2"}, "acks (from kafka.acks): wanted one of all, -1, 1, 0, found '2'"),
        ({"acks": "2"}, "acks: wanted one of all, -1, 1, 0, found '2'"),
        ({"acks": "1", "txnAppId": "a", "txnVersion": "1"}, "acks: wanted all beside txnAppId"),
        ({"acks": "0", "txnAppId": "a", "txnVersion": "1"}, "acks: wanted all beside txnAppId, found '0'"),
        ({"replication": "pull", "txnAppId": "a", "txnVersion": "1"}, "replication: wanted push beside txnAppId"),
        ({"replication": "both"}, "replication: wanted one of push, pull, found 'both'"),
        ({"compression": "gzip"}, "compression: wanted one of zstd, lz4, none, found 'gzip'"),
        ({"kafka.compression.type": "zip"}, "compression (from kafka.compression.type): wanted one of zstd"),
        ({"timeoutMs": "0"}, "timeoutMs: wanted an integer >= 1 (milliseconds), found '0'"),
        ({"txnAppId": "a"}, "txnVersion: wanted txnAppId and txnVersion together, found only txnAppId"),
        ({"txnVersion": "1"}, "txnAppId: wanted txnAppId and txnVersion together, found only txnVersion"),
        ({"txnDigest": "d"}, "txnAppId: wanted txnAppId and txnVersion together, found only txnDigest"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "txnVersion: wanted an integer >= 0, found '-1'"),
        ({"txnAppId": " ", "txnVersion": "1"}, "txnAppId: wanted the id of an application, found ' '"),
        ({"writeId": ""}, "writeId: wanted a label, found ''"),
        ({"writeId": "ä" * 16_384}, "writeId: wanted at most 32,767 bytes of UTF-8, found 32,768, beginning 'ää"),
        ({"txnAppId": "a" * 32_768, "txnVersion": "1"}, "txnAppId: wanted at most 32,767 bytes of UTF-8, found 32,768"),
        ({"mode": "append"}, "mode: not an option of a batch write"),
    ],
)
def test_bad_options_of_a_write_are_refused_by_name(raw: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        write(**raw)
    assert raised.value.message.startswith(told)


@pytest.mark.parametrize("acks", ["0", "1", "all", "-1"])
def test_any_acks_of_a_kafka_job_become_the_stronger_guarantee(acks: str) -> None:
    """Also beside txnAppId and over many partitions, where sparklog's own acks=1 is refused."""
    options = write(**{"kafka.acks": acks, "txnAppId": "a", "txnVersion": "1"})
    assert options.acks is Acks.ALL
    reason = "a Spark write is one commit, so acks=all is used"
    assert options.ignored == ((Ignored(f"kafka.acks={acks}", reason),) if acks in "01" else ())


@pytest.mark.parametrize(("codec", "kept"), [("gzip", None), ("Snappy", None), ("lz4", "lz4"), ("none", "none")])
def test_a_codec_of_kafka_that_sparklog_has_not_becomes_the_default(codec: str, kept: str | None) -> None:
    options = write(**{"Kafka.Compression.Type": codec})
    assert options.compression == kept
    assert [each.name for each in options.ignored] == ([] if kept else [f"Kafka.Compression.Type={codec.lower()}"])


@pytest.mark.parametrize(
    "text", ["latest", "soon", "{", '{"t":5}', '{"t":{"0":-3}}', '{"t":{"0":-1}}', '{"t":{"0":"x"}}']
)
def test_what_a_batch_refuses_at_one_end_is_never_offered_there(text: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        read_orders(startingOffsets=text)
    wanted = raised.value.message.partition("wanted ")[2].partition("found")[0]
    assert wanted.startswith(("earliest or offsets by partition like", "an offset >= 0 or -2 (earliest)"))
    assert "latest" not in wanted
    assert "-1" not in wanted
    with pytest.raises(InvalidOption) as raised:
        read_orders(endingOffsets=text.replace("latest", "earliest").replace("-1", "-2"))
    wanted = raised.value.message.partition("wanted ")[2].partition("found")[0]
    assert wanted.startswith(("latest or offsets by partition like", "an offset >= 0 or -1 (latest)"))
    assert "earliest" not in wanted
    assert "-2" not in wanted


def test_a_read_that_names_its_topic_as_a_write_does_is_told_the_option() -> None:
    with pytest.raises(
        InvalidOption, match="found none of them; topic is an option of a write: a read names it with s"
    ):
        read(topic="orders")
    assert read(topic="orders", subscribe="bills").subscription == SubscribeTopics(("bills",))


# M: P-03
def test_acks_of_the_leader_alone_are_taken_without_a_transaction() -> None:
    assert write(acks="1").acks is Acks.LEADER
    assert write(acks="0").acks is Acks.NONE


def test_replication_is_pushed_unless_it_is_to_be_pulled() -> None:
    assert (write().pull, write(replication="push").pull, write(replication="Pull").pull) == (False, False, True)


def test_an_illegal_topic_name_is_refused_before_anything_is_written() -> None:
    with pytest.raises(InvalidTopic):
        write(topic="a b")


def test_options_cross_processes_and_leave_secrets_behind_on_the_way_to_tasks() -> None:
    raw = {"storage.s.password": "s3cr3t", "storage.s.region": "eu", "cluster.token": "t0k3n"}
    for options in (read_orders(startingOffsets='{"orders":{"0":1}}', **raw), write(**raw)):
        assert pickle.loads(pickle.dumps(options)) == options
        assert "s3cr3t" not in repr(options)
        assert "t0k3n" not in repr(options)
        carried = pickle.dumps(options.for_tasks())
        assert b"s3cr3t" not in carried
        assert b"t0k3n" not in carried
        assert b"eu" in carried


def test_the_address_may_come_from_the_environment() -> None:
    assert parse_read_options({"subscribe": "t"}, "/env").cluster == "/env"
    assert parse_write_options({}, "/env").cluster == "/env"
