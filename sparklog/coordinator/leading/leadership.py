"""The election of a leader among coordinators, from one process's view: a state machine without I/O.

    STANDBY ── no coordinator is in force, or the leader wrote nothing for a session ──► claims the next epoch
       ▲                                                                                      │
       ├──────────────────────────── another process was faster ──────────────────────────────┤
       │                                                                                      ▼
       └────── another process has claimed, or this one had to resign ──────────────────── LEADING

A leader that has written nothing for a third of a session claims its epoch again, to be seen alive.

The chain decides between two processes that claim at once, so a wrong guess here costs only time. Only the process's
own monotonic clock is used, and only to measure the time since the chain last showed anything new.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparklog.core.commands import ClaimCoordination
from sparklog.core.coordination import NO_COORDINATOR, Coordinator

ENTRIES_PER_SESSION = 3  # the leader writes at least this many entries in a session, so that one may be late
STANDBY_LOOK_MS = 500  # the later a standby sees the last entry, the longer a dead leader counts as alive


@dataclass
class Leadership:
    """One process's part in the election. `name` is random for each process, `address` is that of its server.

    All times are milliseconds of this process's monotonic clock.
    """

    name: str
    address: str
    session_ms: int
    known: Coordinator = NO_COORDINATOR
    _new_ms: int | None = None  # when the chain last showed anything new about the coordinator
    _resigned_epoch: int = 0  # the epoch in which this process led, until it was made to resign

    @property
    def leads(self) -> bool:
        """True if this process coordinates the cluster, as far as it has read the chain."""
        return self.known.in_force and self.known.name == self.name

    def observe(self, coordinator: Coordinator, read_ms: int) -> None:
        """Note the coordinator that the chain named when it was read, at `read_ms`.

        Call this only after a successful read: a process that can't reach the chain does not know if the leader is
        silent.
        """
        if coordinator == self.known and self._new_ms is not None:
            return
        if self.leads and not coordinator.in_force:
            self._resigned_epoch = coordinator.epoch
        self.known = coordinator
        self._new_ms = read_ms

    def claim_due(self, read_ms: int) -> ClaimCoordination | None:
        """The claim to submit, after a read of the chain that was done at `read_ms`; None if no claim is due."""
        if self._new_ms is None or read_ms < self._new_ms + self._patience_ms():
            return None
        epoch = self.known.epoch if self.leads else self.known.epoch + 1
        return ClaimCoordination(epoch, self.name, self.address)

    def next_look_ms(self, now_ms: int) -> int:
        """The milliseconds from `now_ms` until this process must read the chain again."""
        longest_ms = self.session_ms // ENTRIES_PER_SESSION
        if not self.leads:
            longest_ms = min(longest_ms, STANDBY_LOOK_MS)
        due_ms = now_ms if self._new_ms is None else self._new_ms + self._patience_ms()
        return max(0, min(due_ms - now_ms, longest_ms))

    def _patience_ms(self) -> int:
        """The time in ms after which this process claims, unless the chain shows anything new of the coordinator."""
        if self.leads:
            return self.session_ms // ENTRIES_PER_SESSION
        if self.known.in_force or self._resigned_epoch == self.known.epoch > 0:
            return self.session_ms  # a process that was made to resign lets the others go first
        return 0
