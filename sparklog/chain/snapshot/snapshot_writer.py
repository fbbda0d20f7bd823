"""Writes a snapshot every SNAPSHOT_EVERY entries, in its own thread after a commit, so that the chain opens fast."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from sparklog.chain.follow.follower import Follower
from sparklog.chain.head import Head
from sparklog.chain.snapshot import snapshot
from sparklog.core.errors import ChainDamaged

SNAPSHOT_EVERY = 1_000  # entries


class SnapshotWriter:
    """Writes snapshots of the newest head that `follower` has. Thread-safe."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def write_if_due(self) -> None:
        """Begin to write a snapshot if SNAPSHOT_EVERY entries were committed after the newest known snapshot.

        Returns at once. Errors are only logged.
        """
        if not self._is_due():
            return
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            thread = threading.Thread(target=self._try, name="sparklog-snapshot")
            try:
                thread.start()
            except RuntimeError as error:  # the process can start no more threads; the commit is done nevertheless
                _no_snapshot(error)
            else:
                self._thread = thread

    def write(self) -> int:
        """Write a snapshot of the newest known state to the chain's store and the mirrors, unless it exists.

        Returns the number of its entry. Raises ChunksGone, after which another attempt may succeed, and the store's
        errors.
        """
        follower = self._follower
        head = follower.head
        if head.n == follower.snapshot_n:
            return head.n
        state = head.state.fork()
        prepared = snapshot.prepare(state, head.entry_hash, dict(follower.known_chunks))
        follower.replace(head, Head(state, head.entry_hash))  # blocks sealed here are in the snapshot
        try:
            follower.learn_snapshot(snapshot.write(follower.store, prepared))
        except snapshot.ChunksGone:
            follower.known_chunks = {}
            raise
        if follower.mirrors is not None:
            follower.mirrors.snapshot(head.n)
        return head.n

    def close(self) -> None:
        """Wait for the end of a snapshot that is being written."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _is_due(self) -> bool:
        return self._follower.head.n - self._follower.snapshot_n >= SNAPSHOT_EVERY

    def _try(self) -> None:
        try:
            with suppress(ChainDamaged):  # a damaged snapshot counts as none: the new one takes its place
                newest = snapshot.newest(self._follower.store)  # maybe written by another process
                if newest is not None:
                    self._follower.learn_snapshot(newest)
            if self._is_due():
                self.write()
        except Exception as error:  # nothing is lost: the next committer tries again
            _no_snapshot(error)


def _no_snapshot(error: Exception) -> None:
    logging.getLogger("sparklog").warning("no snapshot of the metadata chain was written: %s", error)
