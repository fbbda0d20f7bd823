"""Which of several coordinators leads, as each of them sees it: a state machine without I/O (DESIGN 3).

STANDBY ── nobody coordinates, or the one that does wrote nothing for a session ──► it claims the next epoch
   ▲                                                                                          │
   ├──────────────────────────── another one was faster ──────────────────────────────────────┤
   │                                                                                          ▼
   └── another one has claimed since, or somebody made it resign ◄── claims again, to be seen alive ── LEADING

The chain decides between two that claim at once, so a wrong guess here costs time and nothing else. Only the process's
own monotonic clock is asked, and only for how long the chain has shown nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparklog.core.commands import ClaimCoordination
from sparklog.core.coordination import NO_COORDINATOR, Coordinator

ENTRIES_PER_SESSION = 3  # at least so many entries of the leader in a session, so that one may be late
STANDBY_LOOK_MS = 500  # an entry is new when it is seen: the later, the longer after its death a leader counts as alive


@dataclass
class Leadership:
    """One process's part in it. `name` is drawn anew by each process, `address` is where it serves.

    All times are milliseconds of this process's monotonic clock.
    """

    name: str
    address: str
    session_ms: int
    known: Coordinator = NO_COORDINATOR
    _new_ms: int | None = None  # when the chain last showed something new of the coordinator
    _resigned_epoch: int = 0  # the epoch in which this process led, until somebody ended it

    @property
    def leads(self) -> bool:
        """Whether this process coordinates the cluster, as far as it has read the chain."""
        return self.known.in_force and self.known.name == self.name

    def observe(self, coordinator: Coordinator, read_ms: int) -> None:
        """Take in what the chain says of the coordinator, after a read that was done at `read_ms`.

        Only a read that worked counts: a process that can't reach the chain learns nothing of anybody's silence.
        """
        if coordinator == self.known and self._new_ms is not None:
            return
        if self.leads and not coordinator.in_force:
            self._resigned_epoch = coordinator.epoch
        self.known = coordinator
        self._new_ms = read_ms

    def claim_due(self, read_ms: int) -> ClaimCoordination | None:
        """The claim to submit, after a read of the chain that was done at `read_ms`; None if it is not the time."""
        if self._new_ms is None or read_ms < self._new_ms + self._patience_ms():
            return None
        epoch = self.known.epoch if self.leads else self.known.epoch + 1
        return ClaimCoordination(epoch, self.name, self.address)

    def next_look_ms(self, now_ms: int) -> int:
        """How long until the chain has to be read again, in order to be in time."""
        longest_ms = self.session_ms // ENTRIES_PER_SESSION
        if not self.leads:
            longest_ms = min(longest_ms, STANDBY_LOOK_MS)
        due_ms = now_ms if self._new_ms is None else self._new_ms + self._patience_ms()
        return max(0, min(due_ms - now_ms, longest_ms))

    def _patience_ms(self) -> int:
        """For how long nothing new has to be seen before this process claims."""
        if self.leads:
            return self.session_ms // ENTRIES_PER_SESSION
        if self.known.in_force or self._resigned_epoch == self.known.epoch > 0:
            return self.session_ms  # who was made to resign lets the others go first
        return 0
