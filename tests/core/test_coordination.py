"""Which process coordinates a cluster: claims, resignations, and what the chain says of them (rule C1)."""

from __future__ import annotations

import pytest

from sparklog.core.commands import ClaimCoordination, ResignCoordination
from sparklog.core.coordination import Author, Coordinator, is_fenced
from sparklog.core.errors import InvalidInput, StaleControllerEpoch
from sparklog.core.types import EntryNumber
from tests.core.decided_log import DecidedLog
from tests.core.state_contents import contents

ONE = ClaimCoordination(1, "one", "http://one:7400")
TWO = ClaimCoordination(2, "two", "http://two:7400")


def test_a_cluster_is_embedded_until_somebody_claims_it() -> None:
    log = DecidedLog()
    assert log.state.coordinator == Coordinator(0, "", "", EntryNumber(-1))
    assert not log.state.coordinator.in_force
    log.submit(ONE)
    assert log.state.coordinator == Coordinator(1, "one", "http://one:7400", EntryNumber(log.state.n))
    assert log.state.coordinator.in_force


def test_a_later_claim_takes_over_with_the_next_epoch() -> None:
    log = DecidedLog()
    log.submit(ONE)
    log.submit(TWO)
    assert log.state.coordinator == Coordinator(2, "two", "http://two:7400", EntryNumber(log.state.n))


@pytest.mark.parametrize(("epoch", "name"), [(1, "two"), (3, "two"), (0, "one")], ids=["taken", "later", "older"])
def test_a_claim_of_another_epoch_is_refused(epoch: int, name: str) -> None:
    log = DecidedLog()
    log.submit(ONE)
    before = contents(log.state)
    with pytest.raises(StaleControllerEpoch) as raised:
        log.submit(ClaimCoordination(epoch, name, "http://there:7400"))
    assert raised.value.message == (
        f"a claim needs epoch 2, the next one, found {epoch}; one at http://one:7400 has epoch 1"
    )
    assert contents(log.state) == before


def test_a_coordinator_claims_its_epoch_again_to_show_that_it_is_alive() -> None:
    log = DecidedLog()
    log.submit(ONE)
    results = len(list(log.state.results))
    for _ in range(3):
        log.submit(ONE)
    assert log.state.coordinator == Coordinator(1, "one", "http://one:7400", EntryNumber(log.state.n))
    assert len(list(log.state.results)) == results  # an idle cluster remembers nothing of it


def test_a_coordinator_that_was_followed_can_not_claim_its_epoch_again() -> None:
    log = DecidedLog()
    log.submit(ONE)
    log.submit(TWO)
    with pytest.raises(StaleControllerEpoch, match="needs epoch 3"):
        log.submit(ONE)


@pytest.mark.parametrize(
    "claim",
    [
        ClaimCoordination(1, "", "http://one:7400"),
        ClaimCoordination(1, "one", ""),
        ClaimCoordination(1, "one\x1b[2J", "http://one:7400"),
        ClaimCoordination(1, "one", "one:7400"),
        ClaimCoordination(1, "one", "file:///one"),
        ClaimCoordination(1, "one", "http://user:password@one:7400"),
        ClaimCoordination(1, "one", "http://one\u202e:7400"),
    ],
)
def test_a_claim_needs_a_name_and_an_address(claim: ClaimCoordination) -> None:
    log = DecidedLog()
    with pytest.raises(InvalidInput, match="a coordinator needs a name and an address"):
        log.submit(claim)


def test_after_a_resignation_the_cluster_is_embedded_and_the_next_epoch_is_free() -> None:
    log = DecidedLog()
    log.submit(ONE)
    log.submit(ResignCoordination(1))
    assert not log.state.coordinator.in_force
    assert (log.state.coordinator.epoch, log.state.coordinator.name) == (1, "one")
    with pytest.raises(StaleControllerEpoch, match="the cluster has no coordinator, the last epoch was 1"):
        log.submit(ONE)
    log.submit(TWO)
    assert log.state.coordinator.epoch == 2


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_only_the_coordinator_in_force_resigns(epoch: int) -> None:
    log = DecidedLog()
    log.submit(ONE)
    log.submit(TWO)
    with pytest.raises(StaleControllerEpoch, match=rf"found epoch {epoch}; two at http://two:7400 has epoch 2"):
        log.submit(ResignCoordination(epoch))


def test_there_is_nothing_to_resign_from_before_the_first_claim() -> None:
    with pytest.raises(StaleControllerEpoch, match="the cluster has no coordinator, the last epoch was 0"):
        DecidedLog().submit(ResignCoordination(0))


IN_FORCE = Coordinator(2, "two", "http://two:7400", EntryNumber(7))
RESIGNED = Coordinator(2, "two", "", EntryNumber(7))


@pytest.mark.parametrize(
    ("known", "author", "fenced"),
    [
        (IN_FORCE, Author("coordinator", "one", 1), True),
        (IN_FORCE, Author("coordinator", "two", 2), False),
        (IN_FORCE, Author("coordinator", "three", 3), False),
        (IN_FORCE, Author("client", "host:1"), False),
        (RESIGNED, Author("coordinator", "two", 2), True),
        (RESIGNED, Author("coordinator", "three", 3), False),
        (RESIGNED, Author("job", "roll@host:1"), False),
        (Coordinator(), Author("client", "host:1"), False),
        (Coordinator(), Author("coordinator", "one", 1), False),
    ],
)
def test_c1_what_coordinators_write_after_another_one_changes_nothing(
    known: Coordinator, author: Author, fenced: bool
) -> None:
    assert is_fenced(known, author) is fenced


def test_what_a_coordinator_writes_shows_that_it_is_alive() -> None:
    assert IN_FORCE.has_written(Author("coordinator", "two", 2), EntryNumber(9)).entry == 9
    assert IN_FORCE.has_written(Author("coordinator", "one", 1), EntryNumber(9)) is IN_FORCE
    assert IN_FORCE.has_written(Author("client", "host:1"), EntryNumber(9)) is IN_FORCE
