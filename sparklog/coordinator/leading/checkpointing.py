"""Writes checkpoints to the stores while this process leads, in a separate thread, because a store may hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from sparklog.chain.follow.follower import Follower
from sparklog.coordinator.leading.control import LogEvent
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.state import ClusterState
from sparklog.host.daemon import in_daemon
from sparklog.log.checkpoint_files import CheckpointFiles
from sparklog.log.cluster_stores import Stores


class Checkpointing:
    """Writes the checkpoints that have changed, every `log.flush.offset.checkpoint.interval.ms` (0: never).

    If a store fails, the failure is reported, and the next attempt comes after the interval.
    """

    def __init__(self, follower: Follower, stores: Callable[[ClusterState], Stores], say: LogEvent) -> None:
        self._follower = follower
        self._stores = stores
        self._say = say
        self._files = CheckpointFiles()
        self._end: threading.Event | None = None  # of the thread while this process leads
        self._failed: dict[str, str] = {}

    def begin(self) -> None:
        """Start the thread that writes, unless the interval is 0. Call this when the process becomes the leader."""
        interval_ms = effective_cluster(self._follower.state.config).log_flush_offset_checkpoint_interval_ms
        if interval_ms:
            self._end = end = threading.Event()
            in_daemon(partial(self._run, end, interval_ms), "sparklog-checkpoints")

    def end(self) -> None:
        """Stop that thread when the process ceases to lead. A write in progress still finishes; it does no harm."""
        if self._end is not None:
            self._end.set()
        self._end = None

    def write(self) -> None:
        """Write the checkpoints that have changed. If a store fails several times in a row, report that only once."""
        state = self._follower.state
        try:
            failed: dict[str, str] = dict(self._files.write(state, self._stores(state)).items())
        except Exception as error:  # of any kind: try again after the interval
            failed = {"all": repr(error)}
        for store, reason in failed.items():
            if store not in self._failed:
                self._say("error", f"checkpoints of store {store} were not written: {reason}")
        self._failed = failed

    def _run(self, end: threading.Event, interval_ms: int) -> None:
        while not end.wait(interval_ms / 1000):
            self.write()
