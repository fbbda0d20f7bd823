from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidOption
from sparklog.options.connector import CONNECTOR_IGNORED, KAFKA_ALIASES, KAFKA_REFUSED
from sparklog.options.registry import OPTIONS, Side

# The options of Spark 4.2's `KafkaSourceProvider` that a batch read or write takes.
SPARK_BATCH_OPTIONS = {
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "topic",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "groupIdPrefix",
}


def test_every_batch_option_of_sparks_connector_is_known() -> None:
    assert SPARK_BATCH_OPTIONS <= set(OPTIONS) | set(CONNECTOR_IGNORED)


def test_names_differ_without_case() -> None:
    names = [name.lower() for name in (*OPTIONS, *CONNECTOR_IGNORED)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_has_a_doc_a_side_and_a_legal_default(name: str) -> None:
    option = OPTIONS[name]
    assert option.key.doc.endswith((".", ".)"))
    assert option.sides
    assert option.legal()
    if option.key.default is not None:
        assert option.key.read(option.key.default) == option.key.default


def test_aliases_lead_to_options_of_their_side() -> None:
    for side in Side:
        for alias, name in KAFKA_ALIASES[side].items():
            assert side in OPTIONS[name].sides
            assert alias not in KAFKA_REFUSED[side]


def test_an_illegal_value_names_the_option_the_user_wrote() -> None:
    with pytest.raises(InvalidOption) as raised:
        OPTIONS["compression"].parse("snappy", "kafka.compression.type")
    assert str(raised.value) == (
        "INVALID_OPTION: compression (from kafka.compression.type): wanted one of zstd, lz4, none, found 'snappy'"
    )
