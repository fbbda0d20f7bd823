"""When a producer takes what waits, for how much there is room, and which settings make no sense."""

from __future__ import annotations

import pytest

from sparklog.core.config.topic_config import effective
from sparklog.core.errors import InvalidInput
from sparklog.core.producing.buffer import FlushLimits, ProducerBuffer, flush_limits
from sparklog.core.producing.producer_settings import LARGEST_BUFFER_BYTES, ProducerSettings


def buffer() -> ProducerBuffer:
    return ProducerBuffer(ProducerSettings(linger_ms=50, batch_size=100, buffer_memory=300))


def add(to: ProducerBuffer, size_bytes: int, now_ms: int = 0) -> bool:
    if not to.waiting_records:
        to.since_ms = now_ms
    return to.add(size_bytes)


def test_what_waits_is_taken_after_lingering_or_once_it_is_enough_or_wanted() -> None:
    it = buffer()
    assert it.due_ms(urged=True) is None
    assert add(it, 40, now_ms=1_000)
    assert not add(it, 40, now_ms=1_020)
    assert it.due_ms(urged=False) == 1_050
    assert it.due_ms(urged=True) == 1_000
    assert add(it, 40)
    assert not add(it, 40)
    assert it.due_ms(urged=False) == 1_000


def test_records_of_a_topic_with_flush_messages_are_due_once_so_many_wait() -> None:  # M: F-01
    it, limits = buffer(), FlushLimits(3, None)
    for records in (1, 2):
        add(it, 10, now_ms=1_000)
        assert not it.limit(limits, records, 1_000)
        assert it.due_ms(urged=False) == 1_050
    add(it, 10, now_ms=1_000)
    assert it.limit(limits, 3, 1_000)
    assert it.due_ms(urged=False) == 1_000
    assert not it.limit(limits, 4, 1_000), "a sender knows"


def test_records_of_a_topic_with_flush_ms_are_due_before_those_who_linger_for_longer() -> None:  # M: F-01
    it = buffer()
    add(it, 10, now_ms=1_000)
    add(it, 10)
    assert it.limit(FlushLimits(None, 30), 1, 1_010)
    assert it.due_ms(urged=False) == 1_040
    assert it.limit(FlushLimits(None, 7), 1, 1_020)
    assert it.due_ms(urged=False) == 1_027
    assert not it.limit(FlushLimits(5, 30), 1, 1_020), "the earliest counts"
    assert it.due_ms(urged=False) == 1_027
    it.take()
    add(it, 10, now_ms=2_000)
    assert it.due_ms(urged=False) == 2_050, "what was taken is due no more"
    assert it.limit(FlushLimits(None, 1_000), 1, 2_000)
    assert it.due_ms(urged=False) == 2_050, "the producer's own time is shorter"


def test_a_topic_has_limits_if_its_config_sets_one() -> None:
    assert flush_limits(effective({})) is None
    assert flush_limits(effective({"flush.ms": "0"})) == FlushLimits(None, 0)
    assert flush_limits(effective({"flush.messages": "9"})) == FlushLimits(9, None)


def test_there_is_room_until_what_waits_and_what_is_under_way_fill_it() -> None:
    it = buffer()
    add(it, 200)
    assert it.room_bytes == 100
    assert it.take() == 200
    assert it.due_ms(urged=True) is None
    assert it.room_bytes == 100
    assert add(it, 100)
    it.release(150)
    assert it.room_bytes == 150


def test_settings_are_checked() -> None:
    assert ProducerSettings().max_in_flight == 5
    for wrong in ({"linger_ms": -1}, {"max_in_flight": 6}, {"max_in_flight": True}, {"batch_size": 1 << 40}):
        with pytest.raises(InvalidInput):
            ProducerSettings(**wrong)  # type: ignore[arg-type]
    for name in ("linger_ms", "max_block_ms", "delivery_timeout_ms"):
        with pytest.raises(InvalidInput, match=f"{name}: wanted at most 2147483647 ms, found 2147483648"):
            ProducerSettings(**{name: 1 << 31})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="1,073,741,825 bytes"):
        ProducerSettings(buffer_memory=LARGEST_BUFFER_BYTES + 1)
