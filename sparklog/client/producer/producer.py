"""`cluster.producer(...)`: takes records one by one, and writes them in the background, in order and each once.

`send` puts a record into a buffer, and returns a future. A sender thread takes all waiting records as one flush, and
writes them: core/producing decides when and in which order, sending.py does it. Each thread waits for the replies to
its own flush, so there are up to `max_in_flight` threads.
"""

from __future__ import annotations

import copy
import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Never

import msgspec

from sparklog.client.connection import Connection
from sparklog.client.kafka_names import AnswersKafkaMethods, refuse_unknown
from sparklog.client.plans.write_plan import Durability
from sparklog.client.producer.open_producers import open_producers
from sparklog.client.producer.record_future import RecordFuture, SentRecords
from sparklog.client.producer.sending import BufferShare, FlushRows, Sending, rows_of, settle_failed, settle_written
from sparklog.client.producer.targets import SendableTopics, SendOptions, Serializer
from sparklog.client.producer.transaction import Transaction, TransactionSettings
from sparklog.client.producer.waiting_records import CELLS, Header, WaitingRecords
from sparklog.core.commands import AllocateProducer, ProducerEpoch, Submission
from sparklog.core.describe.readable import counted, duration, exact_amount, one_line_repr
from sparklog.core.errors import (
    InvalidInput,
    InvalidRequiredAcks,
    Landed,
    RecordTooLarge,
    RequestTimedOut,
    SparklogError,
)
from sparklog.core.producing.buffer import ProducerBuffer
from sparklog.core.producing.flush import FailedFlush, Flush, FlushCommit, FlushUpload, Renew, Work
from sparklog.core.producing.flushes import Flushes
from sparklog.core.producing.identity import Renewal
from sparklog.core.producing.producer_settings import ProducerSettings
from sparklog.core.replication.replica_append import Acks
from sparklog.host.clock import SystemClock
from sparklog.host.deadline import Deadline
from sparklog.host.dice import SystemDice
from sparklog.host.fork import OwnerProcess

log = logging.getLogger("sparklog")

_CLOCK: Final = SystemClock()


class Producer(AnswersKafkaMethods):
    """A producer. Thread-safe. Use it as a context manager, or call `close`. It is flushed at the end of the program.

    In each partition, records that one thread sends keep their order, and each is written once, despite retries.
    """

    def __init__(
        self,
        connection: Connection,
        settings: ProducerSettings,
        *,
        compression: str | None = None,
        producer_id: int | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
    ) -> None:
        """Allocate a new producer id in the chain, or the next epoch of `producer_id`, which fences older instances.

        Raises the errors of `Connection.submit`, UnknownProducerId, and InvalidInput (a serializer that can't be
        called).
        """
        self._connection = connection
        self._settings = settings
        self._topics = SendableTopics(connection, key_serializer, value_serializer)
        allocated = connection.submit(AllocateProducer(producer_id))
        assert allocated.producer_id is not None
        assert allocated.producer_epoch is not None
        self._compression = compression
        self._sending = Sending(connection, Durability(settings.acks), compression, SystemDice().below(1 << 20))
        self._lock = threading.Lock()  # held to change the fields below
        self._work_there = threading.Condition(self._lock)
        self._room_there = threading.Condition(self._lock)
        self._something_settled = threading.Condition(self._lock)
        self._buffer = ProducerBuffer(settings)
        self._flushes = Flushes(settings, allocated.producer_id, allocated.producer_epoch)
        self._waiting: dict[str, WaitingRecords] = {}
        self._unsettled: weakref.WeakSet[SentRecords] = weakref.WeakSet()
        self._threads: list[threading.Thread] = []
        self._idle = 0  # threads that wait for work
        self._urged = 0  # callers that wait for room, or for a flush
        self._settling = 0  # threads that are settling the futures of failed flushes
        self._noticed = False  # True if a sender knows that records wait
        self._refusal: SparklogError | None = None  # the reason why nothing may be sent any more
        self._renewal: Submission | None = None  # a renewal without an answer
        self._ended = False
        self._owner = OwnerProcess("producer")
        self._abandoned: SparklogError | None = None  # in a forked child: the error of every call
        open_producers.add(self)

    @property
    def producer_id(self) -> int:
        """The id of this producer in the chain. It may change: a producer whose id has expired gets a new one."""
        return self._flushes.identity.producer_id

    @property
    def max_block_ms(self) -> int:
        """The longest time in ms that `send` blocks while the buffer is full, unless the call has its own value."""
        return self._settings.max_block_ms

    def __repr__(self) -> str:
        acks = "all" if self._settings.acks is Acks.ALL else f"{self._settings.acks}"
        waiting = "closed" if self._ended else f"{counted(self._buffer.waiting_records, 'record')} waiting"
        return one_line_repr(f"Producer {self.producer_id}:", f"acks={acks}", waiting)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- for users ------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        headers: Sequence[Header] | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
        max_block_ms: int | None = None,
        **unknown: Never,
    ) -> RecordFuture:
        """Put a record into the buffer. The returned future is done once the record is committed as `acks` asks.

        Key and value are bytes, text (encoded as UTF-8) or None, or objects that the producer's serializers accept.
        Without `partition`, a hash of the key chooses the partition, as in Kafka's producer. In each flush, those
        records of a topic that have neither partition nor key all go to one partition. `timestamp_ms` is by default the
        present time. Blocks while the buffer is full, for up to `max_block_ms` (None: the producer's setting), then
        raises RequestTimedOut. Also raises RecordTooLarge, InvalidRecord, InvalidInput, InvalidOption,
        UnknownTopicOrPartition; InvalidProducerEpoch once a newer instance is active; the errors of a serializer. After
        an error, the record is not sent.
        """
        if unknown:
            refuse_unknown("send", unknown, (*SendOptions.__annotations__, "max_block_ms"))
        sendable, cells_of_record, size = self._topics.record(topic, value, key, headers, timestamp_ms, partition)
        buffer = self._buffer
        with self._lock:
            if self._refusal is not None:
                raise copy.copy(self._refusal)
            if buffer.room_bytes < size:
                self._await_room(size, self._settings.max_block_ms if max_block_ms is None else max_block_ms)
            waiting = self._waiting.get(topic)
            if waiting is None:
                waiting = self._waiting[topic] = WaitingRecords(
                    SentRecords(topic, unawaited=self._settings.acks is Acks.NONE), _CLOCK.monotonic_ms()
                )
                self._unsettled.add(waiting.sent)
            if not buffer.waiting_records:
                buffer.since_ms = _CLOCK.monotonic_ms()
            cells = waiting.cells
            index = len(cells) // CELLS
            enough = buffer.add(size)
            if sendable.limits is not None and buffer.limit(sendable.limits, index + 1, waiting.since_ms):
                enough = True
            if enough or not self._noticed:
                self._wake_sender()
                self._noticed = True
            cells.extend(cells_of_record)
        return RecordFuture(waiting.sent, index)

    def knows(self, topic: str) -> bool:
        """True if `send` can check a record of this topic without reading the chain."""
        return self._topics.knows(topic)

    def look_up(self, topic: str) -> None:
        """Look up a topic, reading the chain if this process does not know it yet, so that `knows` is true afterwards.

        Raises UnknownTopicOrPartition, InvalidTopic (an internal topic), InvalidInput (not a text).
        """
        self._topics.look_up(topic)

    def transaction(self) -> Transaction:
        """Create a transaction, which commits records and group offsets together, or nothing: see transaction.py.

        Use it as `with producer.transaction() as transaction: …`. Raises InvalidRequiredAcks unless the producer has
        acks="all", because a transaction must become visible as a whole; InvalidInput once the producer is closed, and
        InvalidProducerEpoch once a newer instance is active.
        """
        self._owner.check()
        if self._refusal is not None:
            raise copy.copy(self._refusal)
        if self._settings.acks is not Acks.ALL:
            raise InvalidRequiredAcks(
                f'a transaction is visible as a whole or not at all: wanted a producer with acks="all", found '
                f"acks={self._settings.acks}"
            )
        most_bytes, timeout_ms = self._settings.buffer_memory, self._settings.delivery_timeout_ms
        settings = TransactionSettings(self._compression, most_bytes, timeout_ms, SystemDice().below(1 << 20))
        return Transaction(self._connection, self._topics, settings, self.flush, self._fence)

    def flush(self, timeout_ms: int | None = None) -> None:
        """Write waiting records at once. Wait until every record sent before this call is written, or has failed.

        Failures are only reported by the records' futures. Raises RequestTimedOut after `timeout_ms`. Without
        `timeout_ms`, the call ends at the latest when the records' `delivery_timeout_ms` is over. Raises InvalidInput
        in a callback of the producer, and in a forked child.
        """
        self._not_in_a_sender("flush")
        deadline = None if timeout_ms is None else Deadline(timeout_ms)
        with self._lock:
            if self._abandoned is not None:
                raise copy.copy(self._abandoned)
            order = self._flushes.last_order + (1 if self._buffer.waiting_records else 0)
            self._urged += 1
            try:
                self._wake_sender()
                while not self._is_settled(order):
                    if deadline is not None and deadline.passed():
                        raise RequestTimedOut(
                            f"not everything was written within {duration(deadline.timeout_ms)}; sending continues",
                            landed=Landed.UNKNOWN,
                        )
                    self._something_settled.wait(None if deadline is None else deadline.left_s())
            finally:
                self._urged -= 1

    def close(self) -> None:
        """Write every record that was sent, then end. A second call does nothing.

        Any later `send` raises InvalidInput, and so does `close` in a callback of the producer. The call takes at most
        about `delivery_timeout_ms`. After an interrupt (such as Ctrl-C), records may stay unwritten.
        """
        self._not_in_a_sender("close")
        with self._lock:
            if self._refusal is None:
                self._refusal = InvalidInput("the producer is closed: nothing can be sent with it any more")
            self._room_there.notify_all()
        if self._ended or self._abandoned is not None:
            return
        try:
            self.flush()
        finally:
            open_producers.discard(self)  # after an interrupt, the program's end must not wait once more
        with self._lock:
            self._ended = True
            self._work_there.notify_all()
        for thread in self._threads:
            thread.join()

    # ---- inside `send`, `flush` and transactions ------------------------------------------------------------------

    def _fence(self) -> ProducerEpoch | None:
        """The producer id and epoch that fence the commit of a transaction; None while the producer gets new ones.

        Raises the error that `send` raises once the producer is closed or fenced.
        """
        self._owner.check()
        with self._lock:
            if self._refusal is not None:
                raise copy.copy(self._refusal)
            identity = self._flushes.identity
            is_settled = identity.needed is identity.asked is Renewal.NONE
            return ProducerEpoch(*identity.current) if is_settled else None

    def _await_room(self, size_bytes: int, max_block_ms: int) -> None:
        if size_bytes > self._settings.buffer_memory:
            raise RecordTooLarge(
                f"a record takes {exact_amount(size_bytes)} of the producer's buffer, buffer_memory is "
                f"{exact_amount(self._settings.buffer_memory)}"
            )
        self._not_in_a_sender("send with a full buffer")
        deadline = Deadline(max_block_ms)
        self._urged += 1
        try:
            self._wake_sender()
            while self._buffer.room_bytes < size_bytes:
                if deadline.passed():
                    raise RequestTimedOut(
                        f"the producer's buffer of {exact_amount(self._settings.buffer_memory)} (buffer_memory) was "
                        f"full for {duration(max_block_ms)} (max_block_ms); the record is not sent"
                    )
                self._room_there.wait(deadline.left_s())
                if self._refusal is not None:
                    raise copy.copy(self._refusal)
        finally:
            self._urged -= 1

    def _is_settled(self, order: int) -> bool:
        return not self._settling and self._flushes.last_order >= order and self._flushes.is_settled(order)

    def _wake_sender(self) -> None:
        """Wake an idle sender thread; if there is none, start one, up to `max_in_flight` threads."""
        if self._idle:
            self._work_there.notify()
        elif len(self._threads) < self._settings.max_in_flight:
            name = f"sparklog-producer-{self.producer_id}-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)  # `at_program_end` waits for it
            thread.start()
            self._threads.append(thread)

    # ---- sender threads -----------------------------------------------------------------------------

    def _work(self) -> None:
        while (task := self._next_task()) is not None:
            task()

    def _next_task(self) -> Callable[[], None] | None:
        """Wait for the next task of a sender thread, and return it; None once the producer has ended."""
        with self._lock:
            while True:
                now = _CLOCK.monotonic_ms()
                flushes, buffer = self._flushes, self._buffer
                failed = flushes.failures(now)
                if failed:
                    self._settling += 1
                    return partial(self._fail, failed)
                work = flushes.next(now)
                if work is not None:
                    return partial(self._perform, work)
                due_ms = buffer.due_ms(urged=self._urged > 0) if flushes.has_slot else None
                if due_ms is not None and due_ms <= now:
                    return self._take()
                if self._ended:
                    return None
                times = [time for time in (due_ms, flushes.due_ms(now)) if time is not None]
                self._idle += 1
                try:
                    self._work_there.wait((min(times) - now) / 1000 if times else None)
                finally:
                    self._idle -= 1

    def _take(self) -> Callable[[], None]:
        """Turn the waiting records into a flush. The caller holds `self._lock`.

        Returns the next task for a sender thread: to find the partitions of these records.
        """
        waiting, self._waiting = self._waiting, {}
        flush = self._flushes.take(self._buffer.since_ms, FlushRows(BufferShare(self._buffer.take()), {}))
        self._noticed = False
        return partial(self._route, flush, {name: records for name, records in waiting.items() if records.cells})

    def _route(self, flush: Flush, waiting: Mapping[str, WaitingRecords]) -> None:
        try:
            parts = self._sending.route(flush, waiting)
        except Exception as error:  # out of memory, perhaps
            parts = {}
            for records in waiting.values():
                records.sent.fail(_unexpected(error, Landed.NO))
        with self._lock:
            if not parts:
                self._buffer.release(rows_of(flush).buffer_share.settle(0))
            self._flushes.routed(flush, parts)
            self._tell_all()

    def _perform(self, work: Work) -> None:
        try:
            match work:
                case FlushUpload():
                    self._sending.upload(work.flush, work.timeout_ms)
                    self._topics.forget()
                    with self._lock:
                        self._flushes.uploaded(work.flush)
                        self._tell_all()
                case FlushCommit():
                    result = self._sending.commit(work)
                    settle_written(work.flush, result)
                    with self._lock:
                        self._free(work.flush)
                        self._flushes.written(work.flush)
                        self._tell_all()
                case Renew():
                    self._renew(work)
        except Exception as error:
            landed = Landed.UNKNOWN if isinstance(work, FlushCommit) else Landed.NO
            refusal = error if isinstance(error, SparklogError) else _unexpected(error, landed)
            with self._lock:
                now = _CLOCK.monotonic_ms()
                if isinstance(work, Renew):
                    self._flushes.not_renewed(refusal, now)
                else:
                    self._flushes.refused(work.flush, refusal, now)
                if self._flushes.fatal is not None and self._refusal is None:
                    self._refusal = self._flushes.fatal
                self._tell_all()

    def _renew(self, work: Renew) -> None:
        """Get the producer's next epoch, or a new producer id.

        If the last attempt got no answer, send its command again, under the same command id. Raises the errors of
        `Committer.submit`.
        """
        committer = self._connection.committer
        submission = self._renewal or committer.begin(work.command)
        self._renewal = None
        try:
            result = committer.submit(submission, work.timeout_ms)
        except SparklogError as error:
            if error.landed is not Landed.NO:
                self._renewal = msgspec.structs.replace(submission, in_doubt=True)
            raise
        assert result.producer_id is not None
        assert result.producer_epoch is not None
        with self._lock:
            self._flushes.renewed(result.producer_id, result.producer_epoch)
            self._tell_all()

    def _fail(self, failed: Sequence[FailedFlush]) -> None:
        for failure in failed:
            settle_failed(failure.flush, failure.error)
            if self._settings.acks is Acks.NONE:
                topics = ", ".join(rows_of(failure.flush.pieces[0]).topics)
                log.warning("records of %s with acks=0 were not written: %s", topics, failure.error)
        with self._lock:
            for failure in failed:
                self._free(failure.flush)
            self._settling -= 1
            self._tell_all()

    def _free(self, flush: Flush) -> None:
        for piece in flush.pieces:
            self._buffer.release(rows_of(piece).buffer_share.settle(sum(piece.parts.values())))

    def _tell_all(self) -> None:
        """Wake all threads that wait for work, for room in the buffer, or for records to be settled."""
        self._work_there.notify_all()
        self._room_there.notify_all()
        self._something_settled.notify_all()

    # ---- the end of the process, and forks ------------------------------------------------------------

    def _not_in_a_sender(self, what: str) -> None:
        """Raise InvalidInput if this is a sender thread, as in a callback: a call that waits would wait for itself.

        `what`: the call, in the words of the error text.
        """
        if threading.current_thread() in self._threads:
            raise InvalidInput(f"a callback can't {what}: it runs in a thread of the producer that has to continue")

    def abandon(self) -> None:
        """Disable the producer in a forked child: its threads and its records stay with the parent.

        From then on `send`, `flush` and `transaction` raise InvalidInput. The futures of unsettled records raise it,
        too.
        """
        self._lock = threading.Lock()
        self._work_there = self._room_there = self._something_settled = threading.Condition(self._lock)
        self._threads = []
        self._refusal = self._abandoned = self._owner.refusal()
        for sent in list(self._unsettled):
            sent.abandon(self._abandoned)


def _unexpected(error: Exception, landed: Landed) -> SparklogError:
    return SparklogError(f"a producer's thread failed: {error!r}", landed=landed)
