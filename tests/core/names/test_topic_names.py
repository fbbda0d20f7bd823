from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidTopic
from sparklog.core.names.topic_names import INTERNAL_TOPICS, check_no_collision, check_not_internal, check_topic_name


@pytest.mark.parametrize("name", ["orders", "A", "a.b_c-9", "...", "_", "-", "x" * 249])
def test_legal_names_are_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", "it is empty"),
        (".", "it is '.'"),
        ("..", "it is '..'"),
        ("x" * 250, "has 250 characters"),
        ("a b", "'a b' has ' '"),
        ("a/../b", "'a/../b' has '/'"),
        ("über", "'über' has 'ü'"),
        ("a\n", "has '\\n'"),
        ("٣", "has '٣'"),
    ],
)
def test_illegal_names_are_refused_and_the_fault_named(name: str, found: str) -> None:
    with pytest.raises(InvalidTopic) as raised:
        check_topic_name(name)
    assert found in str(raised.value)
    assert str(raised.value).startswith("INVALID_TOPIC_EXCEPTION: a topic name is 1 to 249 of")


def test_internal_topics_are_those_of_kafka_by_their_whole_names() -> None:
    assert {"__consumer_offsets", "__transaction_state"} < INTERNAL_TOPICS
    for name in INTERNAL_TOPICS:
        with pytest.raises(
            InvalidTopic, match=f"'{name}' is the name of an internal topic of Kafka, which can't be created"
        ):
            check_not_internal(name)
    for name in ("consumer_offsets", "__consumer_offsets2", "__other", "__Consumer_Offsets"):
        check_not_internal(name)


def test_names_that_differ_only_in_dot_against_underscore_collide() -> None:
    with pytest.raises(InvalidTopic, match=r"'a\.b_c' collides with the existing topic 'a_b\.c'"):
        check_no_collision("a.b_c", ["other", "a_b.c"])


@pytest.mark.parametrize("name", ["a.b", "ab", "a-b", "A_b"])
def test_other_names_do_not_collide(name: str) -> None:
    check_no_collision(name, ["a.b", "a-b.c", "orders"])
