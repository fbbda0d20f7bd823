"""One command on its way to the coordinator in force: what its author hears, and what it hears it as."""

from __future__ import annotations

import pytest

from sparklog.client.commits.delivery import GRACE_MS, Delivery
from sparklog.core.commands import AllocateProducer, Submission
from sparklog.core.coordination import Coordinator
from sparklog.core.errors import (
    ChainDamaged,
    InconsistentClusterId,
    Landed,
    NotController,
    OutcomeUnknown,
    StoreUnavailable,
)
from sparklog.core.types import CommandId, EntryNumber
from sparklog.storage.http.calls import NoCoordinatorAnswers

KNOWN = Coordinator(1, "c", "http://c", EntryNumber(5))
NEXT = Coordinator(2, "d", "http://d", EntryNumber(9))
LOST = NoCoordinatorAnswers("the connection ended", landed=Landed.UNKNOWN)


def delivery() -> Delivery:
    return Delivery(Submission(CommandId("1" * 32), EntryNumber(0), AllocateProducer()), 1_000, 0)


def in_doubt() -> Delivery:
    sent = delivery()
    sent.failed(LOST, KNOWN, 10)
    return sent


def test_only_an_attempt_that_may_have_landed_leaves_a_doubt() -> None:
    sent = delivery()
    sent.failed(NotController("another process leads"), KNOWN, 10)
    assert not sent.submission.in_doubt
    sent.failed(LOST, KNOWN, 20)
    assert sent.submission.in_doubt


def test_a_coordinator_may_be_silent_for_a_session_and_then_for_shorter_times() -> None:
    """It may lead no more. The next one claims about when the session is over, and only the chain shows that."""
    session_ms, grown = 300, 20_000
    sent = Delivery(Submission(CommandId("1" * 32), EntryNumber(0), AllocateProducer()), grown, 0)
    assert sent.patience_ms(KNOWN, session_ms, 0) == session_ms
    sent.failed(LOST, KNOWN, session_ms)
    assert sent.patience_ms(KNOWN, session_ms, session_ms) == session_ms // 3
    assert sent.patience_ms(NEXT, session_ms, session_ms) == session_ms
    sent.failed(NotController("another process leads"), KNOWN, session_ms)
    assert sent.patience_ms(KNOWN, session_ms, session_ms) == session_ms, "it has answered"


def test_the_reply_may_come_a_little_later_than_the_time_of_the_command() -> None:
    sent = delivery()
    assert (sent.attempt_ms(9_000, 900), sent.patience_ms(KNOWN, 9_000, 900)) == (100, 100 + GRACE_MS)
    assert (sent.attempt_ms(300, 0), sent.patience_ms(KNOWN, 300, 0)) == (300, 300)


def test_pauses_grow() -> None:
    sent = delivery()
    assert [sent.failed(LOST, KNOWN, 10) for _ in range(8)] == [20, 40, 80, 160, 320, 400, 400, 400]


def test_a_refusal_after_a_doubt_does_not_say_that_nothing_landed() -> None:
    """The earlier attempt may still be on its way to a coordinator that takes it."""
    refusal = InconsistentClusterId("this coordinator serves another cluster")
    with pytest.raises(InconsistentClusterId) as raised:
        delivery().failed(refusal, KNOWN, 10)
    assert raised.value.landed is Landed.NO
    with pytest.raises(InconsistentClusterId) as raised:
        in_doubt().failed(refusal, KNOWN, 10)
    assert raised.value.landed is Landed.UNKNOWN


def test_a_chain_that_can_not_be_read_for_now_is_read_again_until_the_time_is_over() -> None:
    away = StoreUnavailable("slow down")
    sent = delivery()
    assert sent.not_followed(away, KNOWN, 999) > 0
    with pytest.raises(StoreUnavailable):
        sent.not_followed(away, KNOWN, 1_000)


@pytest.mark.parametrize("error", [StoreUnavailable("slow down"), ChainDamaged("entry 5 is torn")])
def test_a_chain_that_can_not_be_read_leaves_a_doubt_a_doubt(error: StoreUnavailable | ChainDamaged) -> None:
    with pytest.raises(OutcomeUnknown, match="the command may have landed"):
        in_doubt().not_followed(error, KNOWN, 1_000)
