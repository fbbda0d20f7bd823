"""Options that people bring from Kafka's Python clients are answered with the name they have here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.options import ConsumerOptions
from sparklog.client.kafka_names import ANSWERS, answer_to
from sparklog.core.errors import InvalidOption
from sparklog.core.producing.settings import ProducerSettings


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Any, as these calls are wrong on purpose."""
    url = f"memory://{uuid.uuid4().hex}"
    init_cluster(url)
    with sparklog.connect(url) as made:
        made.create_topic("t")
        yield made


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("group_id", "a consumer has no option 'group_id'; in sparklog this is group, of a consumer"),
        ("group.id", "in sparklog this is group, of a consumer"),
        ("auto.offset.reset", "a consumer has no option 'auto.offset.reset': write auto_offset_reset"),
        ("bootstrap_servers", "in sparklog the address of the cluster is given to connect"),
        ("sasl_plain_username", "in sparklog connect takes token and ca"),
        ("value_serializer", "did you mean value_deserializer?"),
        ("max_poll_record", "did you mean max_poll_records?"),
    ],
)
def test_a_consumer_answers_names_that_it_does_not_have(cluster: Any, name: str, said: str) -> None:
    with pytest.raises(InvalidOption) as error:
        cluster.consumer("t", **{name: "x"})
    assert said in error.value.message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("compression_type", "a producer has no option 'compression_type'; in sparklog this is compression"),
        ("compression.type", "in sparklog this is compression"),
        ("linger.ms", "write linger_ms"),
        ("enable_idempotence", "in sparklog every producer is idempotent"),
        ("transactional_id", "in sparklog this is producer.transaction()"),
        ("retries", "until delivery_timeout_ms is over"),
        ("liner_ms", "did you mean linger_ms?"),
    ],
)
def test_a_producer_answers_names_that_it_does_not_have(cluster: Any, name: str, said: str) -> None:
    with pytest.raises(InvalidOption) as error:
        cluster.producer(**{name: 1})
    assert said in error.value.message


def test_connect_answers_them_as_well() -> None:
    with pytest.raises(InvalidOption, match="in sparklog the address of the cluster is given to connect"):
        sparklog.connect(bootstrap_servers="localhost:9092")  # type: ignore[arg-type]


def test_no_answer_hides_an_option_of_the_same_name() -> None:
    known = {*ProducerSettings.__struct_fields__, *(option.name for option in fields(ConsumerOptions))}
    assert not known & ANSWERS.keys()
    assert not [name for name in known if answer_to(name)]


def test_every_setting_of_a_producer_is_offered(cluster: Cluster) -> None:
    with pytest.raises(InvalidOption) as error:
        cluster.producer(key_serialiser=str)  # type: ignore[arg-type]
    assert error.value.message.endswith("did you mean key_serializer?")
