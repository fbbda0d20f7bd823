"""The producer and the consumer of asyncio programs: order, cancellation, and what is committed."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from sparklog.client.aio import AsyncConsumer, AsyncProducer
from sparklog.client.cluster import Cluster
from sparklog.core.errors import (
    InvalidInput,
    RecordTooLarge,
    RequestTimedOut,
    StoreUnavailable,
    UnknownTopicOrPartition,
    Wakeup,
)
from tests.client.orders import P0, P1, P2, RECORDS, cluster, committed
from tests.kit.log import fill

__all__ = ["cluster"]


def in_loop(program: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30):
            await program()

    asyncio.run(run())


def reading(cluster: Cluster, **options: object) -> AsyncConsumer:
    given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    return cluster.async_consumer("orders", group="billing", **given)


def test_records_are_written_in_the_order_in_which_a_task_sends_them(cluster: Cluster) -> None:
    before = threading.active_count()

    async def program() -> None:
        async with cluster.async_producer(linger_ms=1) as producer:
            futures = [await producer.send("orders", f"{n}", partition=0) for n in range(1000)]
            done = await asyncio.gather(*futures)
        assert [each.offset for each in done] == list(range(RECORDS, RECORDS + 1000))
        assert threading.active_count() < before + 20, "no thread for each record"

    in_loop(program)
    assert cluster.read("orders", partition=0, start=RECORDS)["value"].to_pylist() == [b"%d" % n for n in range(1000)]


def test_one_record_and_its_metadata(cluster: Cluster) -> None:
    async def program() -> None:
        async with cluster.async_producer(linger_ms=0, value_serializer=str) as producer:
            metadata = await producer.send_and_wait("orders", 7, key="k", headers=[("h", b"v")], partition=1)
            assert metadata == ("orders", 1, RECORDS)
            with pytest.raises(UnknownTopicOrPartition):
                await producer.send("nope", 1)
            with pytest.raises(RecordTooLarge):
                await producer.send("orders", "x" * (2 << 20))
            await producer.flush()

    in_loop(program)


def test_a_full_buffer_makes_send_wait_without_holding_up_the_loop(cluster: Cluster) -> None:
    ticks = []

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    async def program() -> None:
        ticking = asyncio.create_task(tick())
        async with cluster.async_producer(linger_ms=100, buffer_memory=2000, batch_size=2000) as producer:
            for _ in range(50):
                await producer.send("orders", b"x" * 400, partition=0)
        ticking.cancel()
        async with cluster.async_producer(
            linger_ms=50_000, buffer_memory=500, batch_size=500, max_block_ms=20
        ) as producer:
            await producer.send("orders", b"x" * 300, partition=0)
            with pytest.raises(RequestTimedOut):
                await producer.send("orders", b"x" * 300, partition=0)

    in_loop(program)
    assert len(ticks) > 50
    assert cluster.describe("orders").partitions[0].high_watermark == RECORDS + 51


def test_a_record_is_written_though_nobody_waits_for_it_any_more(cluster: Cluster) -> None:
    async def program() -> None:
        async with cluster.async_producer(linger_ms=50_000) as producer:
            waiting = asyncio.create_task(producer.send_and_wait("orders", "kept", partition=0))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            future = await producer.send("orders", "also kept", partition=0)
            future.cancel()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            future = await producer.send("orders", "last", partition=0)
            await producer.flush()
            last = await future
            assert last.offset == cluster.describe("orders").partitions[0].high_watermark - 1

    in_loop(program)
    assert cluster.read("orders", partition=0)["value"].to_pylist()[-2:] == [b"also kept", b"last"]


def test_records_one_by_one(cluster: Cluster) -> None:
    async def program() -> None:
        async with reading(cluster, consumer_timeout_ms=50, enable_auto_commit=True) as consumer:
            seen = [record.value async for record in consumer]
            assert len(seen) == 3 * RECORDS
            assert await consumer.assignment() == (P0, P1, P2)
            assert await consumer.lag() == 0
            assert await consumer.end_offsets([P0]) == {P0: RECORDS}

    in_loop(program)
    assert committed(cluster) == {P0: RECORDS, P1: RECORDS, P2: RECORDS}


@pytest.mark.parametrize("by", ["commit", "close"])
def test_what_the_caller_has_not_got_yet_is_not_committed(cluster: Cluster, by: str) -> None:
    async def program() -> None:
        consumer = reading(cluster, enable_auto_commit=by == "close")
        await consumer.start()
        for _ in range(4):
            await anext(consumer)
        if by == "commit":
            await consumer.commit()
            assert await consumer.position(P0) == 4
            rest = [await anext(consumer) for _ in range(3 * RECORDS - 4)]
            assert len({(record.partition, record.offset) for record in rest}) == 3 * RECORDS - 4
            await consumer.close()
        else:
            await consumer.close()
            await consumer.close()

    in_loop(program)
    assert sum(committed(cluster).values()) == 4


def test_a_poll_of_no_records_is_refused(cluster: Cluster) -> None:
    async def program() -> None:
        async with reading(cluster) as reader:
            await anext(reader)  # the records behind it have been read, too
            for refused in (0, -1):
                with pytest.raises(InvalidInput, match="max_records"):
                    await reader.poll(max_records=refused)

    in_loop(program)


def test_a_poll_that_is_cancelled_loses_nothing(cluster: Cluster) -> None:
    async def program() -> None:
        async with reading(cluster) as consumer:
            seen = []
            for at in range(RECORDS, RECORDS + 20):
                waiting = asyncio.create_task(consumer.poll(10_000))
                await asyncio.sleep(0)
                if at % 3 == 0:
                    fill(cluster, 0, 1, first=at)
                waiting.cancel()
                with suppress(asyncio.CancelledError):
                    seen += [record for records in (await waiting).values() for record in records]
                if at % 5 == 0:
                    await consumer.commit()
            fill(cluster, 1, 1, first=RECORDS)
            while len(seen) < 3 * RECORDS + 8:
                seen += [record for records in (await consumer.poll(10_000)).values() for record in records]
            places = [(record.partition, record.offset) for record in seen]
            assert len(set(places)) == len(places) == 3 * RECORDS + 8
            await consumer.commit()

    in_loop(program)
    assert sum(committed(cluster).values()) == 3 * RECORDS + 8


def test_a_task_that_is_cancelled_closes_its_consumer_and_commits_nothing_more(cluster: Cluster) -> None:
    async def service() -> None:
        async with reading(cluster, enable_auto_commit=True) as consumer:
            async for _ in consumer:
                pass

    async def program() -> None:
        task = asyncio.create_task(service())
        while not cluster.groups() or not cluster.describe_group("billing").members:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_loop(program)
    assert cluster.describe_group("billing").members == ()
    assert sum(committed(cluster).values()) == 0


def test_a_loop_that_is_busy_shows_that_it_is_alive_and_hands_nothing_out_twice(cluster: Cluster) -> None:
    async def program() -> None:
        async with reading(
            cluster, enable_auto_commit=True, auto_commit_interval_ms=1, heartbeat_interval_ms=1, consumer_timeout_ms=50
        ) as consumer:
            seen = []
            async for record in consumer:
                seen.append((record.partition, record.offset))
                await asyncio.sleep(0.002)
            assert len(set(seen)) == len(seen) == 3 * RECORDS
            assert (await consumer.metrics())["fetch_total"] > 5

    in_loop(program)
    assert sum(committed(cluster).values()) == 3 * RECORDS


def test_a_wakeup_ends_a_poll(cluster: Cluster) -> None:
    async def program() -> None:
        async with reading(cluster) as consumer:
            while await consumer.poll():
                pass
            waiting = asyncio.create_task(consumer.poll(50_000))
            await asyncio.sleep(0)
            consumer.wakeup()
            with pytest.raises(Wakeup):
                await waiting

    in_loop(program)


def test_they_have_to_be_started(cluster: Cluster) -> None:
    async def program() -> None:
        with pytest.raises(InvalidInput, match="was not started"):
            await cluster.async_producer().send("orders", "x")
        with pytest.raises(InvalidInput, match="was not started"):
            await cluster.async_consumer("orders").poll()
        assert isinstance(cluster.async_producer(), AsyncProducer)

    in_loop(program)


def test_a_producer_is_of_the_loop_in_which_it_was_started(cluster: Cluster) -> None:
    producer = cluster.async_producer(linger_ms=0)
    asyncio.run(producer.start())

    async def elsewhere() -> None:
        with pytest.raises(InvalidInput, match="another event loop"):
            await producer.send_and_wait("orders", "x", partition=0)
        await producer.flush()
        await producer.close()

    in_loop(elsewhere)


def test_a_close_that_is_cancelled_closes(cluster: Cluster) -> None:
    async def program() -> None:
        reader = reading(cluster, enable_auto_commit=True, auto_commit_interval_ms=10**9)
        await reader.start()
        await reader.poll(max_records=5)
        polling = asyncio.create_task(reader.poll(10_000))
        await asyncio.sleep(0)
        polling.cancel()
        closing = asyncio.create_task(reader.close())
        await asyncio.sleep(0)
        closing.cancel()
        for task in (polling, closing):
            with pytest.raises(asyncio.CancelledError):
                await task
        await reader.close()
        assert cluster.describe_group("billing").members == ()
        assert sum(committed(cluster).values()) == 5, "what a poll read that was cancelled was not handed out"

    in_loop(program)


def test_a_poll_that_was_cancelled_and_fails_leaves_no_wakeup(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program() -> None:
        reader = reading(cluster)
        await reader.start()
        await reader.poll()
        entered, go_on = threading.Event(), threading.Event()

        def broken(*args: object) -> None:
            entered.set()
            go_on.wait(10)
            raise StoreUnavailable("away")

        inner = reader._started()._reading
        with monkeypatch.context() as patch:
            patch.setattr(inner, "read", broken)
            polling = asyncio.create_task(reader.poll(10_000))
            await asyncio.to_thread(entered.wait)
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
        committing = asyncio.create_task(reader.commit())
        await asyncio.sleep(0.05)
        go_on.set()
        with pytest.raises(StoreUnavailable):
            await committing
        assert await reader.poll() == {}
        await reader.close()

    in_loop(program)


@pytest.mark.parametrize("given_up", ["poll", "another call"])
def test_the_error_of_a_call_that_was_given_up_is_not_reported_later(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, given_up: str
) -> None:
    reported: list[str] = []

    async def program() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        reader = reading(cluster)
        await reader.start()
        await reader.poll()
        entered, go_on, ended = threading.Event(), threading.Event(), threading.Event()

        def broken(*args: object, **named: object) -> None:
            entered.set()
            go_on.wait(10)
            ended.set()
            raise StoreUnavailable("away")

        with monkeypatch.context() as patch:
            patch.setattr(type(reader._started()), "poll", broken)
            call = asyncio.create_task(reader.poll() if given_up == "poll" else reader._run(broken))
            await asyncio.to_thread(entered.wait, 10)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            go_on.set()
            await asyncio.to_thread(ended.wait, 10)
            # Behind the failed call in the thread of the consumer, so its future is settled before this one.
            await reader._run(int)
        reader._polling = None
        del call
        await reader.close()

    in_loop(program)
    gc.collect()
    assert reported == []
