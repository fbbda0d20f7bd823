"""What a coordinator does next, step by step, without a chain and without a clock."""

from __future__ import annotations

import pytest

from sparklog.coordinator.leading.control import CommitAll, CommitOwn, CoordinatorControl, ReadChain, Rest, StateNow
from sparklog.coordinator.leading.leadership import Leadership
from sparklog.core.commands import (
    AgentDown,
    AgentUp,
    AllocateProducer,
    ClaimCoordination,
    Command,
    ResignCoordination,
    Submission,
)
from sparklog.core.coordination import Author, Coordinator
from sparklog.core.errors import NotController, StoreUnavailable, UnsupportedVersion
from sparklog.core.records import CommandResult
from sparklog.core.state import ClusterState
from sparklog.core.types import CommandId, EntryNumber, StoreId
from sparklog.wire.messages import Outcome, SubmitRequest, SubmittedCommand
from tests.core.replicated_log import ReplicatedLog

SESSION_MS = 9_000
CHAIN = "c" * 32
ME = Author("coordinator", "me", 1)
A = StoreId("a")


def moment(now_ms: int, *, entry: int = 5, name: str = "me", epoch: int = 1) -> StateNow:
    state = ClusterState(chain_id=CHAIN, n=EntryNumber(entry))
    state.coordinator = Coordinator(epoch, name, f"http://{name}", EntryNumber(entry))
    return StateNow(state, now_ms)


def nobody(now_ms: int) -> StateNow:
    return StateNow(ClusterState(chain_id=CHAIN, n=EntryNumber(4)), now_ms)


def control() -> CoordinatorControl:
    return CoordinatorControl(Leadership("me", "http://me", SESSION_MS), 10, lambda event, text: None)


def leading() -> CoordinatorControl:
    leader = control()
    steps = leader.run(nobody(0))
    assert next(steps) == ReadChain()
    claim = steps.send(nobody(0))
    assert claim == CommitOwn(ME, ClaimCoordination(1, "me", "http://me"), SESSION_MS)
    steps.send(moment(10))
    assert leader.leads
    return leader


def request(seen: int = 5) -> SubmitRequest:
    sent = SubmittedCommand(Submission(CommandId("1" * 32), EntryNumber(4), AllocateProducer()), 99)
    return SubmitRequest(CHAIN, EntryNumber(seen), (sent,))


def test_the_leader_claims_again_a_third_of_a_session_after_its_newest_entry() -> None:
    """And not after it has looked at the chain and found that entry: so the gap is never longer than a third."""
    leader = leading()
    steps = leader.submit(request(), moment(2_000))
    assert next(steps) == CommitAll(ME, request().commands)
    with pytest.raises(StopIteration):
        steps.send((moment(2_000, entry=6), [Outcome(CommandResult(EntryNumber(6), EntryNumber(4), 0))]))
    assert leader.leadership.claim_due(4_999) is None
    assert leader.leadership.claim_due(5_000) is not None


def test_one_that_is_behind_its_client_reads_first() -> None:
    steps = leading().submit(request(seen=7), moment(20))
    assert next(steps) == ReadChain()
    assert isinstance(steps.send(moment(30, entry=7)), CommitAll)


def test_one_that_another_followed_commits_nothing_more() -> None:
    leader = leading()
    steps = leader.run(moment(20))
    next(steps)
    rest = steps.send(moment(30, entry=7, name="other", epoch=2))
    assert isinstance(rest, Rest)
    assert not leader.leads
    with pytest.raises(NotController, match="other at http://other coordinates the cluster, with epoch 2"):
        next(leader.submit(request(), moment(40, entry=7, name="other", epoch=2)))


@pytest.mark.parametrize(("name", "epoch", "wanted"), [("me", 1, [AgentDown(A, 0)]), ("other", 2, [])])
def test_one_that_another_followed_watches_nobody_any_more(name: str, epoch: int, wanted: list[Command]) -> None:
    """It is the other one who hears the agents. What this one commits would go out under the epoch of the other."""
    log = ReplicatedLog()
    log.submit(AgentUp(A, log.registration("a")))
    steps = leading().run(moment(20))
    step = next(steps)
    committed = []
    for now_ms in range(30, 3 * SESSION_MS, SESSION_MS // 6):  # the coordinator of each moment has just written
        state = log.state.fork()
        state.coordinator = Coordinator(epoch, name, f"http://{name}", EntryNumber(now_ms))
        if isinstance(step, CommitOwn):
            committed.append(step.command)
            log.submit(step.command)
        step = steps.send(StateNow(state, now_ms))
    assert committed == wanted


def test_a_chain_that_can_not_be_read_is_asked_again_after_a_while() -> None:
    """Also when a claim is long due: else it would be asked without a pause."""
    steps = control().run(nobody(0))
    assert next(steps) == ReadChain()
    for now_ms in (500, 1_000, 50_000):
        assert steps.send(StoreUnavailable("slow down")) == Rest(SESSION_MS // 20)
        assert steps.send(nobody(now_ms)) == ReadChain()


def test_a_request_that_was_under_way_makes_nobody_lead_who_can_not_read_the_chain() -> None:
    leader = leading()
    steps = leader.run(moment(20))
    submitted = leader.submit(request(), moment(20))
    next(submitted)
    next(steps)
    steps.send(UnsupportedVersion("newer"))
    with pytest.raises(StopIteration):
        submitted.send((moment(30, entry=6), [Outcome(CommandResult(EntryNumber(6), EntryNumber(4), 0))]))
    assert not leader.leads
    steps.send(moment(40, entry=6))
    steps.send(moment(50, entry=7))  # it can read the chain again
    assert leader.leads


def test_it_resigns_before_it_ends() -> None:
    leader = leading()
    leader.stop()
    assert next(leader.run(moment(20))) == CommitOwn(ME, ResignCoordination(1), SESSION_MS)


@pytest.mark.parametrize("resigned", [True, False])
def test_after_its_end_it_takes_no_request(resigned: bool) -> None:
    """Connections stay open for a moment, and what performs requests has ended: a refusal leaves nobody in doubt."""
    leader = leading()
    leader.stop()
    steps = leader.run(moment(20))
    next(steps)
    with pytest.raises(StopIteration):
        steps.send(moment(30) if resigned else StoreUnavailable("gone"))
    assert not leader.leads
    with pytest.raises(NotController):
        next(leader.submit(request(seen=9), moment(40)))
