"""Commits a consumer's offsets: synchronously, asynchronously, or automatically.

One background thread makes the asynchronous and the automatic commits, in order. Their callbacks run in the thread that
uses the consumer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping

from sparklog.client.commits.unawaited import UnawaitedCommits
from sparklog.client.consumer.consumer_counts import ConsumerCounts
from sparklog.client.consumer.shares import Shares
from sparklog.core.commands import CommitOffsets
from sparklog.core.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InvalidInput,
    SparklogError,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from sparklog.core.reading.consumer_positions import ConsumerPositions
from sparklog.core.reading.positions import Position
from sparklog.core.types import Place, TopicPartition

log = logging.getLogger("sparklog")

Rows = Mapping[TopicPartition, Position]
CommitCallback = Callable[[Mapping[Place, int], Exception | None], None]


class Commits:
    """Commits positions of one consumer to its group, and marks them as committed. For use by one thread."""

    def __init__(self, shares: Shares, counts: ConsumerCounts) -> None:
        self._shares = shares
        self._counts = counts
        self._unawaited = UnawaitedCommits("sparklog-consumer-commits")
        self._ended: deque[tuple[Callable[[Exception | None], None], Exception | None]] = deque()
        self._under_way = 0

    def commit(self, positions: ConsumerPositions, rows: Rows, metadata: str = "") -> None:
        """Wait for the background commits, then commit the positions in `rows`.

        Raises the errors of `GroupMember.commit`, and InvalidGroupId without a group.
        """
        self.wait()
        if rows:
            try:
                self._shares.prepared(rows, positions.share, positions.generation, metadata)()
            except SparklogError:
                self._counts.failed_commits += 1
                raise
            self._counts.commits += 1
            positions.committed({key: row.offset for key, row in rows.items()})

    def command(self, positions: ConsumerPositions) -> CommitOffsets | None:
        """The command that commits all uncommitted positions, for `Append.consumed`; None if all are committed."""
        rows = positions.to_commit()
        return self._shares.command(rows, positions.share, positions.generation) if rows else None

    def commit_if_still_its_own(self, positions: ConsumerPositions, rows: Rows) -> bool:
        """Commit the positions in `rows` and return True.

        If the partitions may belong to other members by now, or a topic in `rows` was deleted, logs a warning and
        returns False. Raises the other errors of `commit`.
        """
        try:
            self.commit(positions, rows)
        except (IllegalGeneration, UnknownMemberId, FencedInstanceId, UnknownTopicOrPartition, InvalidInput) as error:
            self._log_failure({}, error)
            return False
        return True

    def begin(
        self, positions: ConsumerPositions, rows: Rows, callback: CommitCallback | None = None, metadata: str = ""
    ) -> None:
        """Commit the positions in `rows` in the background.

        Once the commit has ended, `report` calls `callback` with the offsets and the error or None; without a callback,
        it logs an error. Invalid offsets raise their error at once.
        """
        if not rows:
            return
        share = positions.share
        offsets = {(share[key], int(key.partition)): int(row.offset) for key, row in rows.items()}
        commit = self._shares.prepared(rows, share, positions.generation, metadata)

        def done(error: Exception | None) -> None:
            self._counts.commits += error is None
            self._counts.failed_commits += error is not None
            if error is None:
                positions.committed({key: row.offset for key, row in rows.items()})
            (callback or self._log_failure)(offsets, error)

        def run() -> None:
            try:
                commit()
            except Exception as error:
                self._ended.append((done, error))
            else:
                self._ended.append((done, None))

        self._under_way += 1
        self._unawaited.begin(run)

    def begin_auto_commit(self, positions: ConsumerPositions) -> None:
        """Commit in the background all positions not committed yet, unless another commit is still under way.

        An error is only logged, because the next commit contains the same positions or later ones.
        """
        if not self._under_way:
            try:
                self.begin(positions, positions.to_commit())
            except SparklogError as error:
                self._log_failure({}, error)

    def report(self) -> None:
        """Call the callbacks of the background commits that have ended, in the order of the commits."""
        while self._ended:
            done, error = self._ended.popleft()
            self._under_way -= 1
            done(error)

    def wait(self) -> None:
        """Wait for the background commits under way, and call their callbacks."""
        self._unawaited.wait()
        self.report()

    def close(self) -> None:
        """Wait for the background commits under way, end their thread, and call their callbacks."""
        self._unawaited.close()
        self.report()

    def _log_failure(self, offsets: Mapping[Place, int], error: Exception | None) -> None:
        """Log `error`, if there is one. The default callback of a commit; `offsets` is not used."""
        if error is not None:
            group = self._shares.group
            log.warning("group %s: offsets were not committed, so records may be read again: %s", group, error)
