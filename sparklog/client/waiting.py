"""Waits for new entries of the chain: by a request to the coordinator in force, or else by repeated reads of the chain.

    watch = connection.waiting.watch()
    while watch.wait(Records(positions), longest_ms):
        (continue to read at the positions, with connection.follower.state)

When one caller reads new entries of the chain, all waiting callers of the process see them. A coordinator that did not
answer is not asked again for SILENT_MS. Meanwhile the process reads the chain, which also shows the next coordinator.

A wait may have a bell (`host/bell.py`): another thread or a signal handler rings it to wake the waiting thread. Such a
wait asks the coordinator in a thread of its own (`asked_coordinator`), so that it can end before the reply; any other
wait needs no thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from sparklog.chain.chain_requests import FIRST_PAUSE_MS
from sparklog.client.asked_coordinator import AskedCoordinator
from sparklog.client.commits.client_committer import ClientCommitter
from sparklog.core.errors import SparklogError, StoreUnavailable
from sparklog.core.pauses import longer
from sparklog.core.purgatory import Records, Replicated, WaitCondition, is_done
from sparklog.core.types import EntryNumber
from sparklog.host.bell import Bell
from sparklog.host.clock import Clock
from sparklog.host.dice import jittered
from sparklog.host.recent_failures import RecentFailures
from sparklog.wire.messages import WaitReply

ROUND_MS: Final = 5_000  # a coordinator that hangs is noticed after this and the grace for its reply
SILENT_MS: Final = 1_000  # a coordinator that could not be asked is left alone for this long
CHAIN_LOOK_MS: Final = 200  # between looks at the chain without a coordinator, unless the caller sets another pause


class Waiting:
    """Waits for new entries of a connection's chain. All callers share the reads of the chain. Thread-safe."""

    def __init__(self, committer: ClientCommitter) -> None:
        self._committer = committer
        self._follower = committer.follower
        self._looks = 0  # looks begun so far
        self._failures = RecentFailures(lambda: self.clock.monotonic_ms(), SILENT_MS)  # of coordinators, by name

    def watch(self, longest_pause_ms: float = CHAIN_LOOK_MS, bell: Bell | None = None) -> Watch:
        """Create a watch for one caller that waits, perhaps several times in a row.

        `longest_pause_ms`: the longest pause between two reads of the chain. Whenever `bell` rings, `Watch.wait` calls
        its argument `stop` at once, to find out if it shall return.
        """
        return Watch(self, longest_pause_ms, bell)

    def is_done(self, wanted: Replicated | Records) -> bool:
        """True if, in the newest state known here, `wanted` has happened, or can no longer happen."""
        return is_done(self._follower.state, wanted)

    @property
    def clock(self) -> Clock:
        """The clock by which deadlines and pauses are measured."""
        return self._committer.clock

    def at_coordinator(self, wanted: WaitCondition, seen: EntryNumber, longest_ms: int) -> WaitReply | None:
        """Ask the coordinator in force to reply once `wanted` has happened, or after `longest_ms`, at most ROUND_MS.

        `seen`: the newest entry known here. None if no coordinator can be asked, or if the request failed.
        """
        known = self._follower.state.coordinator
        if not self.can_ask:
            return None
        try:
            return self._committer.wait(known, wanted, seen, min(longest_ms, ROUND_MS))
        except SparklogError:  # it is gone, or too busy, or something else is at its address: read the chain
            self._failures.note(known.name)
            return None

    @property
    def can_ask(self) -> bool:
        """True if a coordinator is in force and no request to it has failed within the last SILENT_MS."""
        known = self._follower.state.coordinator
        return known.in_force and not self._failures.is_recent(known.name)

    def look(self, pause_ms: float, bell: Bell | None = None) -> None:
        """Pause, then read the chain, unless meanwhile another caller has begun to read it or a new entry has come.

        A ring of `bell` ends the pause.
        """
        looks, seen = self._looks, self.newest
        self.clock.pause(pause_ms, bell)
        if self._looks == looks and self.newest == seen:
            self._looks += 1
            self.catch_up()

    @property
    def newest(self) -> EntryNumber:
        """The newest entry that this process knows."""
        return EntryNumber(self._follower.head.n)

    def catch_up(self) -> None:
        """Read the chain to its end. Raises the errors of `Follower.catch_up`, except StoreUnavailable.

        StoreUnavailable is ignored, because the chain may be reachable again before the caller's time is over.
        """
        with suppress(StoreUnavailable):
            self._follower.catch_up()


class Watch:
    """One caller's waits for the chain. `wait` may be called again and again."""

    def __init__(self, waiting: Waiting, longest_pause_ms: float, bell: Bell | None) -> None:
        self._waiting = waiting
        self._longest_pause_ms = longest_pause_ms
        self._bell = bell
        self._asked: AskedCoordinator | None = None  # a request in its thread, perhaps since an earlier wait
        self._pause_ms = FIRST_PAUSE_MS
        self._woken_at = EntryNumber(-1)

    def wait(self, wanted: Replicated | Records, longest_ms: int, *, stop: Callable[[], bool] = lambda: False) -> bool:
        """Return True once `wanted` has happened, or can no longer happen; False after `longest_ms`.

        Also returns False once `stop()` is true. `stop` is called between reads of the chain, between requests to a
        coordinator, and whenever the `bell` of this object rings. Raises the errors of `Waiting.catch_up`.
        """
        waiting, clock = self._waiting, self._waiting.clock
        deadline_ms = clock.monotonic_ms() + longest_ms
        if waiting.newest == self._woken_at and waiting.is_done(wanted):
            self._look(deadline_ms)  # the caller was woken by this state and waits again: read the chain first
        while not waiting.is_done(wanted):
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0 or stop():
                return False
            seen = waiting.newest
            asked_ms = clock.monotonic_ms()
            if self._bell is None or not waiting.can_ask:
                reply = waiting.at_coordinator(wanted, seen, left_ms)
            else:
                asked = self._ask(self._bell, wanted, seen, deadline_ms)
                if not asked.wait(stop):
                    return False
                asked_ms, reply = asked.begun_ms, asked.reply()
            if reply is not None and reply.position > seen:
                waiting.catch_up()
                if reply.done and waiting.newest > seen:
                    continue
            if reply is None or clock.monotonic_ms() - asked_ms < max(1, min(left_ms, ROUND_MS) // 2):
                self._look(deadline_ms)  # no coordinator could be asked, or it replied too soon to ask again at once
        self._pause_ms, self._woken_at = FIRST_PAUSE_MS, waiting.newest
        return True

    def _ask(self, bell: Bell, wanted: Replicated | Records, seen: EntryNumber, deadline_ms: int) -> AskedCoordinator:
        """The request to the coordinator for `wanted`: one still under way since an earlier `wait`, or a new one."""
        if self._asked is None or not self._asked.serves(wanted, deadline_ms):
            now_ms = self._waiting.clock.monotonic_ms()
            longest_ms = min(deadline_ms - now_ms, ROUND_MS)
            ask = partial(self._waiting.at_coordinator, wanted, seen, longest_ms)
            self._asked = AskedCoordinator(wanted, ask, bell, now_ms, now_ms + longest_ms)
        return self._asked

    def _look(self, deadline_ms: int) -> None:
        waiting = self._waiting
        left_ms = max(0, deadline_ms - waiting.clock.monotonic_ms())
        waiting.look(min(jittered(self._pause_ms), left_ms), self._bell)
        self._pause_ms = longer(self._pause_ms, self._longest_pause_ms)
