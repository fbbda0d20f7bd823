"""One command on its way to the coordinator in force: what its author hears, and what it hears it as."""

from __future__ import annotations

import pytest

from sparklog.client.delivery import Delivery
from sparklog.core.commands import AllocateProducer, Submission
from sparklog.core.coordinators import Coordinator
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
