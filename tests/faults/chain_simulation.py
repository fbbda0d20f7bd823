"""A seeded simulation of several processes at one chain, with faults, crashes and the deletion of old entries.

One thread: whenever a process calls the store, dice decide whether the call goes wrong, whether the process dies there,
or whether others act first, to any depth. So every interleaving at the grain of store calls can come up, and a seed
always gives the same run. `check` compares what the processes were told with what a new process then reads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from sparklog.chain import follower, snapshot
from sparklog.core.commands import RaiseFloor, Submission
from sparklog.core.errors import Landed, OutcomeUnknown, SparklogError
from sparklog.core.invariants import check as check_invariants
from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber, UploadId
from sparklog.storage.keys import entry_block, entry_key, void_key
from sparklog.storage.object_store import ObjectStore
from tests.chain.chain_kit import SMALL_BLOCK, TIMEOUT_MS, Member, append, member, small_blocks, upload_of
from tests.core.state_contents import contents
from tests.faults.deadly_calls import Died
from tests.faults.faulty_store import WRITES, Callback, Fault

MEMBERS = 3
MOST_NESTED = 3


class Inline:
    """Stands for a ThreadPoolExecutor: one thread, so that the order of calls is the same in each run."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def map(self, call: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        return [call(each) for each in arguments]


def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, and no threads in the chain."""
    small_blocks(monkeypatch)
    for module in (follower, snapshot):
        monkeypatch.setattr(module, "ThreadPoolExecutor", Inline)


@dataclass
class Attempt:
    """A submission and what its author was told last; None: nothing, it died."""

    submission: Submission
    author: int
    told: CommandResult | SparklogError | None = None
    tries: int = 0


@dataclass
class Simulation:
    """`store` holds a new chain (`chain_kit.new_chain`) with blocks of SMALL_BLOCK entries."""

    store: ObjectStore
    dice: random.Random
    fault: float = 0.04
    death: float = 0.01
    interruption: float = 0.06
    members: list[Member] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)
    vacuumed: set[UploadId] = field(default_factory=set)
    deleted_blocks: int = 0
    calm: bool = False

    def __post_init__(self) -> None:
        for number in range(MEMBERS):
            self.members.append(member(self.store))
            self.members[number].store.roll = self._roll(number)

    def run(self, steps: int) -> None:
        """Let anybody act, `steps` times; then let everybody end in peace."""
        for _ in range(steps):
            self._somebody_acts()
        self.calm = True
        for each in self.attempts:
            if each.told is None or isinstance(each.told, OutcomeUnknown):
                self._submit(each)

    def check(self) -> None:
        """What everybody was told is what a process reads that comes now. Raises AssertionError."""
        reader = member(self.store)
        check_invariants(reader.follower.state)
        for each in self.members:
            each.follower.catch_up()
            assert contents(each.follower.state) == contents(reader.follower.state)
        starts: dict[UploadId, int] = {}
        for partition in range(2):
            for offset, upload_id in enumerate(reader.uploads(partition)):
                assert upload_id not in starts, f"{upload_id} is there twice"
                assert upload_id not in self.vacuumed, f"{upload_id} is named, and its bytes were vacuumed"
                starts[upload_id] = offset
        order: dict[tuple[int, int], int] = {}
        for attempt in self.attempts:
            upload_id, told = upload_of(attempt.submission), attempt.told
            if isinstance(told, CommandResult):
                (written,) = told.ranges
                assert starts.get(upload_id) == written.start, f"{upload_id} was acknowledged at {written.start}"
                if attempt.tries == 1:
                    writer = (attempt.author, written.partition)
                    assert order.get(writer, -1) < written.start, "a writer's own order"
                    order[writer] = written.start
            elif isinstance(told, SparklogError) and told.landed is Landed.NO:
                assert upload_id not in starts, f"{upload_id} landed, its author was told {told}"

    # ---- what can happen ------------------------------------------------------------------------

    def _roll(self, number: int) -> Callable[[str, str], Fault | Callback | None]:
        def roll(method: str, key: str) -> Fault | Callback | None:
            if self.calm:
                return None
            at = self.dice.random()
            if at < self.fault:
                writing = (Fault.REPLY_LOST, Fault.LOST, Fault.UNAVAILABLE, Fault.OWN_KEY_EXISTS)
                return self.dice.choice(writing) if method in WRITES else Fault.UNAVAILABLE
            if at < self.fault + self.death:
                return self._die
            if at < self.fault + self.death + self.interruption and len(self.busy) < MOST_NESTED:
                return self._others_act
            return None

        return roll

    def _die(self) -> None:
        raise Died

    def _others_act(self) -> None:
        for _ in range(self.dice.choice((1, 1, 1, 2, 3 * SMALL_BLOCK))):
            self._somebody_acts()

    def _somebody_acts(self) -> None:
        free = [number for number in range(MEMBERS) if number not in self.busy]
        if not free:
            return
        number = self.dice.choice(free)
        action = self.dice.choices(
            (self._append, self._submit_again, self._read, self._snapshot, self._delete_block, self._raise_floor),
            weights=(12, 3, 2, 2, 2, 1),
        )[0]
        self.busy.add(number)
        try:
            action(number)
        except SparklogError:
            pass
        except Died:
            self.members[number] = self._reborn(number)
        finally:
            self.busy.discard(number)

    def _reborn(self, number: int) -> Member:
        """A new process in place of one that died."""
        found = member(self.store)
        found.store.roll = self._roll(number)
        return found

    def _append(self, number: int) -> None:
        position = self.members[number].committer.position()
        submission = self.members[number].begin(append(partition=self.dice.randrange(2), n0=position))
        attempt = Attempt(submission, number)
        self.attempts.append(attempt)
        self._submit(attempt)

    def _submit_again(self, number: int) -> None:
        open_ones = [
            each
            for each in self.attempts
            if (each.told is None or isinstance(each.told, OutcomeUnknown)) and each.author not in self.busy - {number}
        ]
        if open_ones:
            attempt = self.dice.choice(open_ones)
            attempt.author = number
            self._submit(attempt)

    def _submit(self, attempt: Attempt) -> None:
        attempt.tries += 1
        attempt.told = None
        submission = msgspec.structs.replace(attempt.submission, in_doubt=attempt.tries > 1)
        try:
            attempt.told = self.members[attempt.author].submit(submission)
        except SparklogError as error:
            attempt.told = error

    def _read(self, number: int) -> None:
        self.members[number].follower.catch_up()

    def _snapshot(self, number: int) -> None:
        self.members[number].committer.write_snapshot()

    def _delete_block(self, number: int) -> None:
        """The deleter's rule: the next block is full and covered by a snapshot; first the mark, then the entries."""
        found = member(self.store)
        block = self.deleted_blocks
        if entry_block(found.follower.snapshot_n) < block + 2:
            return
        self.store.put_if_absent(void_key(block), b"")
        self.deleted_blocks += 1
        for n in range(block * SMALL_BLOCK, (block + 1) * SMALL_BLOCK):
            self.store.delete(entry_key(n))

    def _raise_floor(self, number: int) -> None:
        """Raise FLOOR, then do what vacuum does: what was uploaded before it, and no state names, is deleted."""
        committer = self.members[number].committer
        floor = EntryNumber(max(0, committer.position() - self.dice.randrange(4)))
        committer.submit(committer.begin(RaiseFloor(floor)), TIMEOUT_MS)
        state = member(self.store).follower.state
        named = {each.object.upload_id for each in state.objects}
        for each in self.attempts:
            upload_id = upload_of(each.submission)
            if each.submission.n0 < state.floor and upload_id not in named:
                self.vacuumed.add(upload_id)
