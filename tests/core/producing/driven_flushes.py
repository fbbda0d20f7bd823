"""The flushes of a producer, driven by hand.

of = flushes()
sent = committing(of, records=3)     # taken, routed, uploaded; its commit begins
of.written(sent.flush)
"""

from __future__ import annotations

from collections.abc import Collection

from sparklog.core.errors import OutcomeUnknown, SparklogError
from sparklog.core.producing.flush import Flush, FlushCommit, FlushUpload
from sparklog.core.producing.flushes import Flushes
from sparklog.core.producing.producer_settings import ProducerSettings
from tests.core.decided_log import place

TIMEOUT_MS = 100_000


class NoRows:
    """Rows that nobody sends."""

    def only(self, parts: Collection[object]) -> NoRows:
        return self


def flushes(**settings: object) -> Flushes:
    return Flushes(ProducerSettings(delivery_timeout_ms=TIMEOUT_MS, **settings), 7, 0)  # type: ignore[arg-type]


def take(of: Flushes, *partitions: int, records: int = 1, now_ms: int = 0) -> Flush:
    """A flush with so many records for each partition."""
    flush = of.take(now_ms, NoRows())
    of.routed(flush, {place(partition): records for partition in partitions or (0,)})
    return flush


def upload(of: Flushes, now_ms: int = 0) -> Flush:
    work = of.next(now_ms)
    assert isinstance(work, FlushUpload), work
    of.uploaded(work.flush)
    return work.flush


def commit(of: Flushes, now_ms: int = 0) -> FlushCommit:
    work = of.next(now_ms)
    assert isinstance(work, FlushCommit), work
    return work


def upload_and_commit(of: Flushes, now_ms: int = 0) -> FlushCommit:
    upload(of, now_ms)
    return commit(of, now_ms)


def committing(of: Flushes, *partitions: int, records: int = 1) -> FlushCommit:
    """The commit of a new flush."""
    take(of, *partitions, records=records)
    return upload_and_commit(of)


def failed(of: Flushes, now_ms: int = 0) -> list[tuple[Flush, SparklogError]]:
    return [(each.flush, each.error) for each in of.failures(now_ms)]


def unknown() -> OutcomeUnknown:
    return OutcomeUnknown("no answer")


def upload_of(of: Flushes, partitions: set[int], now_ms: int = 0) -> Flush:
    work = of.next(now_ms)
    assert isinstance(work, FlushUpload)
    assert {key.partition for key in work.flush.parts} == partitions
    return work.flush
