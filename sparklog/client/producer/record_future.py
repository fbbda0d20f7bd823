"""Futures for the outcomes of sent records: one for each record, which costs almost nothing until it is used.

The records of one topic in one flush share an object `SentRecords`. It has the outcomes, and the condition variable on
which threads wait for outcomes. A future only has a reference to this object, and the index of its record.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparklog.client.kafka_names import AnswersKafkaMethods
from sparklog.host.deadline import Deadline

log = logging.getLogger("sparklog")

Partitions = npt.NDArray[Any] | int  # the partition of each record, or of all


class RecordMetadata(NamedTuple):
    """Topic, partition and offset of a written record. With acks=0 partition and offset are None."""

    topic: str
    partition: int | None
    offset: int | None


class WrittenRecords(NamedTuple):
    """The outcome of records of one partition that were written: they have consecutive offsets from `start` on."""

    start: int


Outcome = WrittenRecords | BaseException


class SentRecords:
    """The outcomes of the records of one topic in one flush, by their indexes in the order of `send`. Thread-safe.

    `partitions`: the partition of each record; None until the flush is routed. If the constructor is called with
    `unawaited` (acks=0), all futures are done from the beginning.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_failure",
        "_outcomes",
        "_ranks",
        "_unawaited",
        "condition",
        "partitions",
        "topic",
    )

    def __init__(self, topic: str, *, unawaited: bool = False) -> None:
        self.topic = topic
        self.condition = threading.Condition()
        self.partitions: Partitions | None = None
        self._unawaited = unawaited
        self._outcomes: dict[int, Outcome] = {}  # by partition
        self._failure: BaseException | None = None  # of all records without another outcome
        self._ranks: npt.NDArray[np.int64] | None = None
        self._callbacks: list[tuple[RecordFuture, Callable[[RecordFuture], object]]] = []

    # ---- by senders -----------------------------------------------------------------------------

    def settle(self, outcomes: Mapping[int, Outcome]) -> None:
        """Set the outcome (written, or an error) of all records in each partition of `outcomes`. Run the callbacks."""
        with self.condition:
            self._outcomes.update(outcomes)
            ready = self._wake()
        _call(ready)

    def fail(self, failure: BaseException) -> None:
        """Set `failure` as the outcome of all records without an outcome, and run their callbacks."""
        with self.condition:
            self._failure = failure
            ready = self._wake()
        _call(ready)

    def abandon(self, failure: BaseException) -> None:
        """Fail the records in a forked child, where no sender thread exists. Replaces the lock, which may be held."""
        self.condition = threading.Condition()
        self._callbacks = []
        self._failure = failure

    def _wake(self) -> list[tuple[RecordFuture, Callable[[RecordFuture], object]]]:
        self.condition.notify_all()
        ready = [waiting for waiting in self._callbacks if self.outcome(waiting[0].index) is not None]
        self._callbacks = [waiting for waiting in self._callbacks if self.outcome(waiting[0].index) is None]
        return ready

    # ---- by futures -----------------------------------------------------------------------------

    def outcome(self, index: int) -> Outcome | None:
        """The outcome of the record with this index; None if it is not known yet."""
        if self._unawaited:
            return WrittenRecords(-1)
        outcome: Outcome | None = None
        if self.partitions is not None:
            outcome = self._outcomes.get(self._partition(index))
        return self._failure if outcome is None else outcome

    def metadata(self, index: int, written: WrittenRecords) -> RecordMetadata:
        """Topic, partition and offset of the record with this index, which was written with the outcome `written`."""
        if self._unawaited:
            return RecordMetadata(self.topic, None, None)
        return RecordMetadata(self.topic, self._partition(index), written.start + self._rank(index))

    def call_back(self, future: RecordFuture, callback: Callable[[RecordFuture], object]) -> None:
        """Call `callback(future)` once the future's record has an outcome: at once, or later in a sender thread."""
        with self.condition:
            if self.outcome(future.index) is None:
                self._callbacks.append((future, callback))
                return
        try:
            callback(future)
        except Exception:
            log.exception("a callback of a producer failed")

    def _partition(self, index: int) -> int:
        assert self.partitions is not None
        return self.partitions if isinstance(self.partitions, int) else int(self.partitions[index])

    def _rank(self, index: int) -> int:
        """Number of records in the same partition that come before the record with this index."""
        if isinstance(self.partitions, int) or self.partitions is None:
            return index
        if self._ranks is None:
            order = np.argsort(self.partitions, kind="stable")
            counts = np.bincount(self.partitions)
            ranks = np.empty(len(order), np.int64)
            ranks[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
            self._ranks = ranks
        return int(self._ranks[index])


class RecordFuture(AnswersKafkaMethods):
    """The future of one record. It can't be cancelled, because the record may already be on its way."""

    __slots__ = ("_records", "index")

    def __init__(self, records: SentRecords, index: int) -> None:
        self._records = records
        self.index = index

    def __repr__(self) -> str:
        state = "done" if self.done() else "waiting"
        return f"<RecordFuture {self.index} of {self._records.topic}, {state}>"

    def done(self) -> bool:
        """True if the record is written or has failed."""
        return self._records.outcome(self.index) is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the record is written; return its topic, partition and offset.

        Raises the record's error if its write failed, and TimeoutError after `timeout` seconds (None: no limit).
        """
        outcome = self._await(timeout)
        if isinstance(outcome, BaseException):
            raise copy.copy(outcome)  # many futures share it, and perhaps as many threads
        return self._records.metadata(self.index, outcome)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until the record is written (returns None) or has failed (returns its error).

        Raises TimeoutError after `timeout` seconds (None: no limit).
        """
        outcome = self._await(timeout)
        return outcome if isinstance(outcome, BaseException) else None

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        """Call `fn(future)` once the record is written or has failed: at once, or later in a sender thread.

        A slow `fn` delays other records.
        """
        self._records.call_back(self, fn)

    def future(self) -> Future[RecordMetadata]:
        """Return a standard future with the same outcome, for `wait`, `as_completed` and `asyncio.wrap_future`.

        It costs far more than this future. In a forked child, call this method again: the parent's standard futures
        are never done there.
        """
        standard: Future[RecordMetadata] = Future()
        standard.set_running_or_notify_cancel()  # it can't be cancelled either
        self.add_done_callback(partial(_copy_outcome, standard))
        return standard

    def _await(self, timeout: float | None) -> Outcome:
        outcome = self._records.outcome(self.index)
        if outcome is not None:
            return outcome
        deadline = None if timeout is None else Deadline(int(timeout * 1000))
        with self._records.condition:
            while True:
                outcome = self._records.outcome(self.index)
                if outcome is not None:
                    return outcome
                if deadline is not None and deadline.passed():
                    raise TimeoutError
                self._records.condition.wait(None if deadline is None else deadline.left_s())


def _copy_outcome(standard: Future[RecordMetadata], done: RecordFuture) -> None:
    error = done.exception()
    if error is None:
        standard.set_result(done.result())
    else:
        standard.set_exception(copy.copy(error))  # as in `RecordFuture.result`


def _call(ready: list[tuple[RecordFuture, Callable[[RecordFuture], object]]]) -> None:
    """Run callbacks in a sender thread. Errors, even SystemExit, are only logged: the thread must continue to send."""
    for future, callback in ready:
        try:
            callback(future)
        except BaseException:
            log.exception("a callback of a producer failed")
