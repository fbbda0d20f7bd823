"""Producer and consumer for asyncio: `cluster.async_producer(...)` and `cluster.async_consumer(...)`.

    async with cluster.async_producer() as producer:
        metadata = await producer.send_and_wait("orders", b"…", key=b"…")
    async with cluster.async_consumer("orders", group="billing") as consumer:
        async for record in consumer: ...

`AsyncProducer` and `AsyncConsumer` wrap a `Producer` and a `Consumer`. The producer's own sender threads pass the
results of many records to the event loop together; each consumer runs in one thread of its own. Methods are named as in
aiokafka, or, if aiokafka has no such method, as in `Producer` and `Consumer`. Transactions, `commit_async` and
`poll_table` exist only in `Producer` and `Consumer`: a program that needs them runs one of these in a thread.

A cancelled wait loses nothing: a record is written even if its future is cancelled, and records read for a cancelled
`poll` are returned by the next `poll`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial, update_wrapper
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, Unpack

from sparklog.client.consumer.consumer import Consumer
from sparklog.client.consumer.consumer_record import ConsumerRecord
from sparklog.client.consumer.options import check_positive
from sparklog.client.kafka_names import AnswersKafkaMethods
from sparklog.client.producer.producer import Producer
from sparklog.client.producer.record_future import RecordFuture, RecordMetadata
from sparklog.client.producer.targets import SendOptions
from sparklog.core.errors import InvalidInput, OffsetOutOfRange, RequestTimedOut, SparklogError, Wakeup
from sparklog.core.types import Place
from sparklog.host.clock import SystemClock

P = ParamSpec("P")
T = TypeVar("T")

ROOM_LOOK_S: Final = 0.005  # time between two looks of a send for room in a full buffer
LONGEST_POLL_MS: Final = 5_000  # an iteration polls again after this; its thread outlives a program no longer than this
_CLOCK: Final = SystemClock()


class AsyncProducer(AnswersKafkaMethods):
    """A producer for one event loop. Use it with `async with`, or call `start` and `close`."""

    def __init__(self, make: Callable[[], Producer]) -> None:
        """Prepare the wrapper. `make` creates the producer to wrap; `start` calls it."""
        self._make = make
        self._producer: Producer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()  # held to change the fields below
        self._settled: list[tuple[asyncio.Future[RecordMetadata], RecordFuture]] = []  # for the loop to deliver

    async def __aenter__(self) -> AsyncProducer:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Create the wrapped producer, with a producer id from the chain. Raises the errors of `Cluster.producer`."""
        self._loop = asyncio.get_running_loop()
        self._producer = await asyncio.to_thread(self._make)

    async def send(self, topic: str, value: object, **options: Unpack[SendOptions]) -> asyncio.Future[RecordMetadata]:
        """Wait until the producer's buffer has room, then put a record into it. Returns a future of the written record.

        The options are those of `Producer.send`, without `max_block_ms`.

        Cancelling `send` prevents the record from being sent; cancelling the returned future does not. Raises
        RequestTimedOut if there is no room within `max_block_ms`, the other errors of `Producer.send`, and InvalidInput
        before `start`, or in an event loop other than the one that called it.
        """
        producer = self._started()
        if asyncio.get_running_loop() is not self._loop:
            raise InvalidInput(
                "this producer was started in another event loop, which gets the results: start one in each loop"
            )
        if not producer.knows(topic):
            await asyncio.to_thread(producer.look_up, topic)
        end_ms = _CLOCK.monotonic_ms() + producer.max_block_ms
        while True:
            try:
                sent = producer.send(topic, value, max_block_ms=0, **options)
                break
            except RequestTimedOut:
                if _CLOCK.monotonic_ms() >= end_ms:
                    raise
            await asyncio.sleep(ROOM_LOOK_S)
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        sent.add_done_callback(partial(self._note, future))
        return future

    async def send_and_wait(self, topic: str, value: object, **options: Unpack[SendOptions]) -> RecordMetadata:
        """Send a record as `send` does, and wait until it is written. Raises the record's error if its write fails."""
        return await (await self.send(topic, value, **options))

    async def flush(self) -> None:
        """Wait until every record sent before this call is written, or has failed; see `Producer.flush`."""
        await asyncio.to_thread(self._started().flush)
        self._deliver_here()

    async def close(self) -> None:
        """Write every record that was sent, then end the producer. A second call does nothing."""
        if self._producer is not None:
            await asyncio.to_thread(self._producer.close)
            self._deliver_here()

    def _started(self) -> Producer:
        if self._producer is None:
            raise InvalidInput("this producer was not started: use it with `async with`, or await start()")
        return self._producer

    def _note(self, future: asyncio.Future[RecordMetadata], sent: RecordFuture) -> None:
        """Queue the result of `sent` for `future`. The event loop sets the results of all queued futures together.

        Runs in a thread of the producer, or in the loop.
        """
        with self._lock:
            self._settled.append((future, sent))
            is_first = len(self._settled) == 1
        if is_first and self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, so no task waits
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver_here(self) -> None:
        if asyncio.get_running_loop() is self._loop:
            self._deliver()

    def _deliver(self) -> None:
        with self._lock:
            settled, self._settled = self._settled, []
        for future, sent in settled:
            if future.done():  # cancelled
                continue
            try:
                future.set_result(sent.result())
            except Exception as error:
                future.set_exception(error)


def _in_thread(
    method: Callable[Concatenate[Consumer, P], T],
) -> Callable[Concatenate[AsyncConsumer, P], Coroutine[Any, Any, T]]:
    """Wrap a method of `Consumer` as a coroutine that runs it in the consumer's thread."""

    async def call(self: AsyncConsumer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._call(method, *args, **kwargs)

    return _documented(call, method)


def _after_rewinding(
    method: Callable[Concatenate[Consumer, P], T],
) -> Callable[Concatenate[AsyncConsumer, P], Coroutine[Any, Any, T]]:
    """Wrap a method as `_in_thread` does. Each call first drops the records that were read but not returned yet.

    The consumer is rewound in each partition, so that it reads these records again.
    """

    async def call(self: AsyncConsumer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        await self._put_back()
        return await self._call(method, *args, **kwargs)

    return _documented(call, method)


def _documented(call: T, method: Callable[..., object]) -> T:
    return update_wrapper(call, method)  # type: ignore[arg-type, return-value]


class AsyncConsumer(AnswersKafkaMethods):
    """A consumer for one event loop and one task at a time. Use it with `async with`, or call `start` and `close`.

    Records that the consumer's thread has read, but no call has returned yet, are not committed by a commit or a close.
    """

    def __init__(self, make: Callable[[], Consumer]) -> None:
        """Prepare the wrapper. `make` creates the consumer to wrap; `start` calls it in the consumer's thread."""
        self._make = make
        self._consumer: Consumer | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sparklog-async-consumer")
        self._polling: asyncio.Future[dict[Place, list[ConsumerRecord]]] | None = None
        self._poll: Future[dict[Place, list[ConsumerRecord]]] | None = None  # the same, for the thread
        self._unread: deque[ConsumerRecord] = deque()
        self._ending: Future[None] | None = None
        self._polled_ms = 0

    async def __aenter__(self) -> AsyncConsumer:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """Close the consumer. If the block was cancelled or raised an error (not Wakeup), commit nothing more."""
        await self._end(lambda consumer: consumer.__exit__(kind))

    async def start(self) -> None:
        """Create the wrapped consumer. Raises the errors of `Cluster.consumer`."""
        self._consumer = await self._run(self._make)

    async def close(self) -> None:
        """Commit the returned records (with auto-commit), and leave the group. A second call does nothing.

        Raises the errors of `Consumer.close`.
        """
        await self._end(Consumer.close)

    # ---- reading --------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[Place, list[ConsumerRecord]]:
        """Read records as `Consumer.poll` does. The records of a cancelled call are returned by the next call."""
        most = self._started().options.max_poll_records if max_records is None else max_records
        check_positive("max_records", most)
        if not self._unread:
            await self._fetch(timeout_ms, max_records)
        polled: dict[Place, list[ConsumerRecord]] = {}
        while self._unread and most:
            record = self._unread.popleft()
            polled.setdefault((record.topic, record.partition), []).append(record)
            most -= 1
        return polled

    def __aiter__(self) -> AsyncConsumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record. If none comes within the option `consumer_timeout_ms`, end the iteration.

        Without that option, wait until a record comes. Raises the errors of `Consumer.poll`.
        """
        options = self._started().options
        if self._unread and _CLOCK.monotonic_ms() - self._polled_ms >= options.heartbeat_interval_ms:
            await self._put_back()  # the next poll shows that the member is alive, and commits returned records
        begun_ms, timeout_ms = _CLOCK.monotonic_ms(), options.consumer_timeout_ms
        while not self._unread:
            waited_ms = _CLOCK.monotonic_ms() - begun_ms
            left_ms = LONGEST_POLL_MS if timeout_ms is None else max(0, timeout_ms - waited_ms)
            await self._fetch(min(left_ms, LONGEST_POLL_MS), None)  # at least once, however late it is
            if not self._unread and left_ms == 0:
                raise StopAsyncIteration
        return self._unread.popleft()

    def wakeup(self) -> None:
        """Make the `poll` that is waiting raise Wakeup at once; if none is waiting, the next `poll` raises it."""
        self._started().wakeup()

    subscribe = _after_rewinding(Consumer.subscribe)
    assign = _after_rewinding(Consumer.assign)
    unsubscribe = _after_rewinding(Consumer.unsubscribe)
    position = _after_rewinding(Consumer.position)
    lag = _after_rewinding(Consumer.lag)
    seek = _after_rewinding(Consumer.seek)
    seek_to_beginning = _after_rewinding(Consumer.seek_to_beginning)
    seek_to_end = _after_rewinding(Consumer.seek_to_end)
    pause = _after_rewinding(Consumer.pause)
    resume = _after_rewinding(Consumer.resume)
    commit = _after_rewinding(Consumer.commit)
    committed = _in_thread(Consumer.committed)
    paused = _in_thread(Consumer.paused)
    assignment = _in_thread(Consumer.assignment)
    subscription = _in_thread(Consumer.subscription)
    topics = _in_thread(Consumer.topics)
    partitions_for_topic = _in_thread(Consumer.partitions_for_topic)
    beginning_offsets = _in_thread(Consumer.beginning_offsets)
    end_offsets = _in_thread(Consumer.end_offsets)
    offsets_for_times = _in_thread(Consumer.offsets_for_times)
    metrics = _in_thread(Consumer.metrics)

    # ---- inside ---------------------------------------------------------------------------------

    def _started(self) -> Consumer:
        if self._consumer is None:
            raise InvalidInput("this consumer was not started: use it with `async with`, or await start()")
        return self._consumer

    async def _call(self, method: Callable[Concatenate[Consumer, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(partial(method, self._started(), *args, **kwargs))

    async def _run(self, call: Callable[[], T]) -> T:
        """Run `call` in the consumer's thread, to its end even if the caller is cancelled; return its result."""
        return await _shielded(asyncio.get_running_loop().run_in_executor(self._thread, call))

    async def _fetch(self, timeout_ms: int, max_records: int | None) -> None:
        """Poll in the consumer's thread, and put the records into `_unread`, the queue of records not returned yet.

        If the poll of a cancelled call is still under way, waits for it instead of beginning another.
        """
        if self._polling is None:
            call = partial(self._started().poll, timeout_ms, max_records)
            self._poll = self._thread.submit(call)
            self._polling = asyncio.wrap_future(self._poll)
        polling = self._polling
        try:
            fetched = await _shielded(polling)
        except asyncio.CancelledError:
            raise  # the records that it reads are for the next call, even if it is done by now
        except BaseException:
            self._polling = None
            raise
        if self._polling is not polling:  # another call has it
            return
        self._polling = None
        self._polled_ms = _CLOCK.monotonic_ms()
        self._unread.extend(record for records in fetched.values() for record in records)

    async def _put_back(self) -> None:
        """Drop the records that were read but not returned, and rewind the consumer, so that it reads them again."""
        consumer = self._started()
        if self._polling is not None:
            consumer.wakeup()
            with suppress(Wakeup):
                try:
                    await self._fetch(0, None)
                except Wakeup:
                    pass
                except Exception:
                    with suppress(Wakeup):
                        await self._fetch(0, None)
                    raise
                else:
                    await self._fetch(0, None)  # if that poll was already over, the wakeup ends this one
        unread, self._unread = self._unread, deque()
        if unread:
            await self._call(_go_back, unread)

    async def _end(self, end: Callable[[Consumer], None]) -> None:
        """Rewind the consumer, in each partition, to the first record not yet returned. Then call `end(consumer)`.

        Both steps are one call in the consumer's thread, so a cancellation can't come between them.
        """
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            polled = None if self._polling is None else self._poll
            unread, self._polling, self._unread = self._unread, None, deque()
            if polled is not None:
                consumer.wakeup()
            self._ending = self._thread.submit(_put_back_and_end, consumer, polled, unread, end)
            self._thread.shutdown(wait=False)
        elif self._ending is None or self._ending.done():
            return
        await _shielded(asyncio.wrap_future(self._ending))


def _shielded(work: asyncio.Future[T]) -> asyncio.Future[T]:
    """Return a future that may be cancelled without cancelling `work`.

    If the caller gives up, asyncio does not report an error of `work` either. Otherwise it would print the error much
    later, when `work` is collected as garbage.
    """
    work.add_done_callback(_retrieve)
    return asyncio.shield(work)


def _retrieve(work: asyncio.Future[Any]) -> None:
    if not work.cancelled():
        work.exception()


def _put_back_and_end(
    consumer: Consumer,
    polled: Future[dict[Place, list[ConsumerRecord]]] | None,
    unread: deque[ConsumerRecord],
    end: Callable[[Consumer], None],
) -> None:
    try:
        with suppress(SparklogError):  # the error of a cancelled poll
            if polled is not None and not polled.cancelled():
                unread.extend(record for records in polled.result().values() for record in records)
        with suppress(SparklogError):
            _go_back(consumer, unread)
    finally:
        end(consumer)


def _go_back(consumer: Consumer, unread: Iterable[ConsumerRecord]) -> None:
    """Seek to the first of the `unread` records in each partition.

    Skips a partition that the consumer no longer has, or whose log no longer has the record.
    """
    first: dict[Place, int] = {}
    for record in unread:
        first.setdefault((record.topic, record.partition), record.offset)
    for place, offset in first.items():
        with suppress(InvalidInput, OffsetOutOfRange):
            consumer.seek(place, offset)
