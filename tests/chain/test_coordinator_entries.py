"""The entries of a coordinator: a fenced one commits nothing, and no reader takes what it wrote (rule C1)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sparklog.chain.commit.committer import Committer, new_command_id
from sparklog.chain.entry import EncodedEntry, encode_command, encode_entry
from sparklog.core.commands import ClaimCoordination, CreateTopic, ResignCoordination, Submission
from sparklog.core.coordination import Author
from sparklog.core.errors import NotController, OutcomeUnknown
from sparklog.core.records import AppliedCommand, CommandResult, TopicCreated
from sparklog.core.types import EntryNumber, StoreId, TopicId
from sparklog.storage.keys import LOG, entry_key
from tests.chain.chain_kit import TIMEOUT_MS, Member, append, member, new_chain
from tests.kit.faulty_store import Fault


@dataclass
class Coordinating:
    """A process that coordinates, or did."""

    process: Member
    epoch: int

    def __post_init__(self) -> None:
        author = Author("coordinator", f"c{self.epoch}", self.epoch)
        self.process.committer = Committer(self.process.follower, author, self.process.clock)

    def claim(self) -> None:
        self.submit(ClaimCoordination(self.epoch, f"c{self.epoch}", f"http://c{self.epoch}"))

    def submit(self, command: ClaimCoordination | ResignCoordination | CreateTopic) -> CommandResult:
        submission = Submission(new_command_id(), self.process.committer.follower.state.n0, command)
        return self.process.committer.submit(submission, TIMEOUT_MS)


@pytest.fixture
def chain() -> Member:
    return new_chain()


def coordinating(chain: Member, epoch: int) -> Coordinating:
    made = Coordinating(member(chain.store.inner), epoch)
    made.claim()
    return made


def test_a_coordinator_that_another_one_followed_commits_nothing_more(chain: Member) -> None:
    old, new = coordinating(chain, 1), coordinating(chain, 2)
    end = new.process.follower.catch_up().n
    with pytest.raises(NotController) as raised:
        old.process.append()
    assert str(raised.value) == (
        "NOT_CONTROLLER: a command needs the coordinator in force, c1 of epoch 1 no longer coordinates; "
        "c2 at http://c2 has epoch 2"
    )
    assert chain.follower.catch_up().n == end
    assert new.process.append().records == 1


def test_one_that_was_made_to_resign_commits_nothing_more(chain: Member) -> None:
    old = coordinating(chain, 1)
    chain.follower.catch_up()
    chain.committer.submit(chain.committer.begin(ResignCoordination(1)), TIMEOUT_MS)
    with pytest.raises(NotController, match="the cluster has no coordinator, the last epoch was 1"):
        old.process.append()
    assert chain.append().records == 1  # embedded again


def test_what_it_sent_before_it_was_fenced_is_in_doubt_only_if_it_may_have_landed(chain: Member) -> None:
    old = coordinating(chain, 1)
    new = Coordinating(member(chain.store.inner), 2)
    submission = old.process.begin(append(n0=old.process.committer.follower.state.n0))
    old.process.store.plan(Fault.REPLY_LOST, "put_if_absent", LOG)
    old.process.store.plan(Fault.UNAVAILABLE, times=1_000)
    with pytest.raises(OutcomeUnknown):
        old.process.submit(submission)
    new.process.follower.catch_up()
    new.claim()
    assert new.process.submit(submission).records == 1
    assert len(new.process.uploads()) == 1


def test_no_reader_takes_what_a_fenced_coordinator_wrote(chain: Member) -> None:
    coordinating(chain, 1)
    new = coordinating(chain, 2)
    head = chain.follower.catch_up()
    topic = TopicCreated(TopicId(9), "stolen", {}, ((StoreId("a"),),))
    forged = AppliedCommand(new_command_id(), EntryNumber(head.n), (topic,))
    author = Author("coordinator", "c1", 1)
    at, commands = EntryNumber(head.n + 1), (encode_command(forged),)
    body = encode_entry(EncodedEntry(head.state.chain_id, at, author, "f" * 32, head.entry_hash, 7, commands))
    chain.store.inner.put_if_absent(entry_key(head.n + 1), body)
    state = chain.follower.catch_up().state
    assert state.n == head.n + 1
    assert state.topic_named("stolen") is None
    assert state.results.get(forged.command_id) is None
    assert new.process.append().records == 1
    assert member(chain.store.inner).follower.state.topic_named("stolen") is None


def test_each_entry_of_the_coordinator_says_that_it_is_alive(chain: Member) -> None:
    leading = coordinating(chain, 1)
    leading.process.append()
    state = chain.follower.catch_up().state
    assert state.coordinator.entry == state.n
    chain.append()  # of an embedded process
    assert chain.follower.catch_up().state.coordinator.entry == state.n


def test_a_snapshot_knows_the_coordinator(chain: Member) -> None:
    leading = coordinating(chain, 1)
    leading.process.append()
    leading.process.committer.snapshots.write()
    assert member(chain.store.inner).follower.state.coordinator == leading.process.follower.state.coordinator
