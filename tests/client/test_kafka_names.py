"""Options and methods that people bring from Kafka's Python clients are answered with the name they have here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.client.consumer.options import ConsumerOptions
from sparklog.client.kafka_names import ANSWERS, METHOD_ANSWERS, answer_to
from sparklog.client.producer.producer import Producer
from sparklog.client.producer.record_future import RecordFuture
from sparklog.client.producer.targets import SendOptions
from sparklog.client.producer.transaction import Transaction
from sparklog.core.errors import InvalidInput, InvalidOption
from sparklog.core.producing.producer_settings import ProducerSettings
from tests.kit.log import new_cluster


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Any, as these calls are wrong on purpose."""
    with new_cluster() as made:
        made.create_topic("t")
        yield made


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("group_id", "a consumer has no option 'group_id': write group=… for a consumer"),
        ("group.id", "'group.id': write group=… for a consumer"),
        ("auto.offset.reset", "a consumer has no option 'auto.offset.reset': write auto_offset_reset"),
        ("bootstrap_servers", "'bootstrap_servers': give the cluster's address to sparklog.connect(…)"),
        ("sasl_plain_username", "give token=… and ca=… of a coordinator to sparklog.connect(…)"),
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
        ("compression_type", "a producer has no option 'compression_type': write compression=…"),
        ("compression.type", "'compression.type': write compression=…"),
        ("linger.ms", "write linger_ms"),
        ("enable_idempotence", "'enable_idempotence': leave it out (every producer is idempotent)"),
        ("transactional_id", "write producer.transaction()"),
        ("retries", "'retries': write delivery_timeout_ms=…"),
        ("liner_ms", "did you mean linger_ms?"),
    ],
)
def test_a_producer_answers_names_that_it_does_not_have(cluster: Any, name: str, said: str) -> None:
    with pytest.raises(InvalidOption) as error:
        cluster.producer(**{name: 1})
    assert said in error.value.message


def test_connect_answers_them_as_well() -> None:
    with pytest.raises(InvalidOption, match=r"give the cluster's address to sparklog\.connect"):
        sparklog.connect(bootstrap_servers="localhost:9092")  # type: ignore[arg-type]


def test_no_answer_hides_an_option_of_the_same_name() -> None:
    known = {*ProducerSettings.__struct_fields__, *(option.name for option in fields(ConsumerOptions))}
    assert not known & ANSWERS.keys()
    assert not [name for name in known if answer_to(name)]


def test_every_setting_of_a_producer_is_offered(cluster: Cluster) -> None:
    with pytest.raises(InvalidOption) as error:
        cluster.producer(key_serialiser=str)  # type: ignore[arg-type]
    assert error.value.message.endswith("did you mean key_serializer?")


def test_an_option_that_send_does_not_have_is_answered(cluster: Any) -> None:
    with cluster.producer() as producer:
        with pytest.raises(InvalidOption, match="send has no option 'on_delivery': call add_done_callback"):
            producer.send("t", b"v", on_delivery=print)
        with pytest.raises(InvalidOption, match="'timestamp'; did you mean timestamp_ms"):
            producer.send("t", b"v", timestamp=1)
        with pytest.raises(InvalidOption, match="'max_blocks_ms'; did you mean max_block_ms"):
            producer.send("t", b"v", max_blocks_ms=1)
        with pytest.raises(InvalidOption, match="send has no option 'on_delivery'"), producer.transaction() as made:
            made.send("t", b"v", on_delivery=print)
    assert cluster.describe("t").records == 0
    arguments = inspect.signature(Producer.send).parameters.values()
    named = {each.name for each in arguments if each.kind is each.KEYWORD_ONLY}
    assert named == {*SendOptions.__annotations__, "max_block_ms"}


def test_a_method_that_a_class_does_not_have_is_answered(cluster: Any) -> None:
    with cluster.producer() as producer, cluster.consumer("t") as consumer:
        future = producer.send("t", b"v")
        for made, name, said in (
            (cluster, "list_topics", "'Cluster' object has no attribute 'list_topics': write cluster.topics()"),
            (cluster, "create_topics", "write cluster.create_topic(name, …)"),
            (producer, "begin_transaction", "write `with producer.transaction() as transaction:`"),
            (producer, "produce", "write producer.send(topic, value, key=…)"),
            (producer, "poll", "a producer needs no poll"),
            (consumer, "poll_messages", "write consumer.poll(timeout_ms=…, max_records=…)"),
            (future, "get", "'RecordFuture' object has no attribute 'get': write future.result(timeout=…)"),
            (cluster.async_producer(), "stop", "write close()"),
            (cluster.async_consumer("t"), "getone", "write `async for record in consumer:`"),
        ):
            assert not hasattr(made, name)
            assert name not in dir(made)
            with pytest.raises(AttributeError) as error:
                getattr(made, name)
            assert said in str(error.value)
        assert future.result(60).offset == 0


def test_the_answers_to_methods_name_what_is_there() -> None:
    owners = {
        "cluster": Cluster,
        "producer": Producer,
        "consumer": Consumer,
        "transaction": Transaction,
        "future": RecordFuture,
    }
    for answer in METHOD_ANSWERS.values():
        for owner, method in re.findall(r"\b(cluster|producer|consumer|transaction|future)\.(\w+)", answer):
            assert hasattr(owners[owner], method), answer
    classes = (Cluster, Producer, Consumer, RecordFuture)
    assert not [name for name in METHOD_ANSWERS if all(hasattr(each, name) for each in classes)]


def test_topics_in_a_list_are_refused_with_the_way_to_give_them(cluster: Any) -> None:
    with pytest.raises(InvalidInput, match=r"""found \['t'\]: consumer\("a", "b"\) takes names one by one"""):
        cluster.consumer(["t"])


def test_rows_that_are_not_arrow_are_refused_with_the_way_to_make_them_so(cluster: Any) -> None:
    with pytest.raises(InvalidInput, match=r"found list: pa\.Table\.from_pylist\(rows\)"):
        cluster.append("t", [{"key": b"k", "value": b"v"}])
    with pytest.raises(InvalidInput, match=r"wanted a pyarrow Table or RecordBatch, found str$"):
        cluster.append("t", "v")
