"""Uploads of a topic that the author of a command may not read: no command makes them records of another topic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace
from starlette.applications import Starlette

from sparklog.chain.commit.committer import new_command_id
from sparklog.chain.follow.follower import Follower
from sparklog.client.cluster import Cluster
from sparklog.client.plans.plan_and_upload import plan_and_upload
from sparklog.client.plans.write_plan import Durability, append_command
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page.records.record_routes import MESSAGES
from sparklog.core.access import Verb
from sparklog.core.commands import Append, Command, PartitionEpoch, RewrittenSlice, Submission, Swap
from sparklog.core.errors import Damaged, SparklogError
from sparklog.core.tables.slice_table import digest
from sparklog.core.types import (
    EntryNumber,
    LeaderEpoch,
    NamedObject,
    NewObject,
    NewSlice,
    ObjectKind,
    ObjectNumber,
    Offset,
    OffsetRange,
    PartitionIndex,
    Slice,
    TimestampSource,
    TopicId,
    TopicPartition,
    UploadId,
)
from sparklog.log.read.object_reader import read_index
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.storage.keys import data_key
from sparklog.wire.messages import JSON, SUBMIT, SubmitReply, SubmitRequest, SubmittedCommand
from sparklog.wire.topic_messages import OFFSETS, PLAN, TOPIC, LatestOffset, OffsetsRequest, PlanRequest, WantedOffset
from tests.chain.chain_kit import TIMEOUT_MS
from tests.coordinator.access.test_gate import NEEDS, access, bearer
from tests.coordinator.asgi import Answer, request
from tests.kit.log import new_cluster, rows, values

T = TypeVar("T")
RIGHTS = ("write:mine", "maintain:mine", "read:mine", "describe:*")
SECRETS = [f"secret {number}" for number in range(5)]
OWN = ["own 0", "own 1"]
P0 = PartitionIndex(0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic `secret` has a sealed segment, whose append object is retired, and an append object. `mine` has another."""
    with new_cluster() as made:
        for topic in ("secret", "mine"):
            made.create_topic(topic, partitions=1)
        made.append("secret", rows(SECRETS[:3]))
        run_roll(made.connection.url, everything=True)
        made.append("secret", rows(SECRETS[3:]))
        made.append("mine", rows(OWN))
        yield made


class Attacker:
    """Somebody with rights on topic `mine` alone, who has read the chain."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.state = cluster.connection.follower.catch_up().state

    def id_of(self, topic: str) -> TopicId:
        return self.state.topic_ids[topic]

    def secret(self, kind: ObjectKind, *, retired: bool = False) -> tuple[NamedObject, Slice]:
        """An object of topic `secret`, and a slice that fits it."""
        of = [each for each in self.state.objects if each.object.topic_id == self.id_of("secret")]
        (named,) = (each for each in of if each.object.kind is kind and (each.number in self.state.retired) is retired)
        slices = list(self.state.slices.everything())
        fitting = [each for each in slices if each.object_number == named.number]
        return named, (fitting or [each for each in slices if each.topic_id == self.id_of("secret")])[0]

    def append(self, *named: NewObject, slice_: Slice) -> Append:
        """An append of whatever these objects have to topic `mine`."""
        mine = self.id_of("mine")
        return Append(
            tuple(
                replace(
                    each, kind=ObjectKind.APPEND, topic_id=mine, partition=None, base_offset=None, leader_epoch=None
                )
                for each in named
            ),
            tuple(self._new(slice_, at) for at in range(len(named))),
            (PartitionEpoch(mine, P0, LeaderEpoch(0)),),
        )

    def swap(self, named: NewObject, slice_: Slice) -> Swap:
        """A rewrite of topic `mine` that says its records are in this object."""
        mine = TopicPartition(self.id_of("mine"), P0)
        end = Offset(len(OWN))
        replaced = self.state.slices.find(mine, OffsetRange(Offset(0), end))
        sealed = replace(
            named,
            kind=ObjectKind.SEGMENT,
            topic_id=mine.topic_id,
            partition=P0,
            base_offset=Offset(0),
            leader_epoch=LeaderEpoch(0),
        )
        new = replace(self._new(slice_, 0), records=len(OWN))
        source = TimestampSource.CREATE_TIME
        rewritten = RewrittenSlice(
            new=new, start=Offset(0), end=end, append_time_ms=0, timestamp_source=source, leader_epoch=LeaderEpoch(0)
        )
        return Swap(mine.topic_id, P0, Offset(0), end, digest(replaced), (sealed,), (rewritten,))

    def _new(self, slice_: Slice, object_index: int) -> NewSlice:
        return NewSlice(
            object_index=object_index,
            topic_id=self.id_of("mine"),
            partition=P0,
            records=slice_.records,
            position=slice_.position,
            length=slice_.length,
            first_batch=slice_.first_batch,
            batches=slice_.batches,
            min_timestamp_us=slice_.min_timestamp_us,
            max_timestamp_us=slice_.max_timestamp_us,
        )

    def submit(self, command: Command, rights: Sequence[str] = RIGHTS) -> str | None:
        """The code of the coordinator's refusal; None if it has committed the command."""

        async def work(app: Starlette) -> str | None:
            state = self.cluster.connection.follower.catch_up().state
            n = EntryNumber(state.n)
            sent = (SubmittedCommand(Submission(new_command_id(), n, command), TIMEOUT_MS),)
            body = msgspec.msgpack.encode(SubmitRequest(state.chain_id, n, sent))
            answer = await request(app, "POST", SUBMIT, [body], bearer())
            (outcome,) = msgspec.msgpack.decode(answer.body, type=SubmitReply).outcomes
            return None if outcome.error is None else outcome.error.code

        return self._asked(work, rights)

    def page(self) -> bytes:
        """The page of the records of topic `mine`."""

        async def work(app: Starlette) -> bytes:
            return (await request(app, "GET", "/topics/mine/messages", headers=bearer())).body

        return self._asked(work)

    def answers(self, rights: Sequence[str]) -> dict[str, Answer]:
        """What each route answers that is asked of topic `secret`, by its path."""
        bodies = {
            PLAN: msgspec.json.encode(PlanRequest("secret")),
            OFFSETS: msgspec.json.encode(OffsetsRequest("secret", (WantedOffset(0, LatestOffset()),))),
        }

        async def work(app: Starlette) -> dict[str, Answer]:
            answers = {}
            for path in NEEDS:
                asked = path.replace("{name}", "secret").replace("{key:path}", "log/0000000000000000/" + "0" * 20)
                method, body = ("POST", bodies[path]) if path in bodies else ("GET", b"")
                answers[path] = await request(app, method, asked, [body], {**bearer(), "content-type": JSON})
            return answers

        return self._asked(work, rights)

    def _asked(self, work: Callable[[Starlette], Awaitable[T]], rights: Sequence[str] = RIGHTS) -> T:
        """What comes of `work`, asked of a coordinator that leads meanwhile."""
        connection = self.cluster.connection

        async def run() -> T:
            follower = Follower(connection.follower.store)
            follower.open()
            leading = asyncio.Event()
            service = Service(
                follower,
                connection.url,
                "http://me:7400",
                session_ms=60_000,
                queued_max=10,
                say=lambda event, text: leading.set() if event == "leads" else None,
                stores=connection.stores,
            )
            running = asyncio.create_task(service.run())
            await asyncio.wait_for(leading.wait(), 60)
            try:
                return await work(app_of(service, lambda: access(*rights)))
            finally:
                service.stop()
                await running

        return asyncio.run(run())


def never_committed(cluster: Cluster) -> Append:
    """What a task has uploaded for topic `secret`, before its commit."""
    batches = pa.table({"value": ["secret 9"]}).to_batches()
    plan, written, _ = plan_and_upload(cluster.connection, "secret", batches, None, Durability(), 60_000)
    command = append_command(plan, [written])
    assert command is not None
    return command


def as_slice(command: Append) -> Slice:
    (new,) = command.slices
    own = {"object_index", "offsets", "timestamp_source"}
    fields = {name: getattr(new, name) for name in NewSlice.__struct_fields__ if name not in own}
    return Slice(
        **fields,
        start=Offset(0),
        end=Offset(new.records),
        object_number=ObjectNumber(0),
        append_time_ms=0,
        timestamp_source=TimestampSource.CREATE_TIME,
        leader_epoch=LeaderEpoch(0),
    )


@pytest.mark.parametrize(
    ("kind", "retired"), [(ObjectKind.APPEND, False), (ObjectKind.APPEND, True), (ObjectKind.SEGMENT, False)]
)
@pytest.mark.parametrize("how", ["append", "append twice", "append beside a new one", "swap"])
def test_an_upload_of_another_topic_is_refused_and_leaves_no_trace(
    cluster: Cluster, how: str, kind: ObjectKind, retired: bool
) -> None:
    attacker = Attacker(cluster)
    named, slice_ = attacker.secret(kind, retired=retired)
    taken, new = named.object, replace(named.object, upload_id=UploadId("e" * 32))
    command: Command = {
        "append": lambda: attacker.append(taken, slice_=slice_),
        "append twice": lambda: attacker.append(new, new, slice_=slice_),
        "append beside a new one": lambda: attacker.append(new, taken, slice_=slice_),
        "swap": lambda: attacker.swap(taken, slice_),
    }[how]()
    assert attacker.submit(command) == "DUPLICATE_RESOURCE"
    page = attacker.page()
    assert b"own 1" in page
    assert b"secret" not in page
    run_roll(cluster.connection.url, everything=True)
    assert values(cluster, topic="secret") == SECRETS
    assert values(cluster, topic="mine") == OWN


@pytest.mark.parametrize("rights", [RIGHTS, *((f"{verb}:mine",) for verb in Verb)], ids=" ".join)
@pytest.mark.parametrize(
    ("kind", "retired"), [(ObjectKind.APPEND, False), (ObjectKind.APPEND, True), (ObjectKind.SEGMENT, False)]
)
def test_no_right_on_another_topic_helps_to_name_an_upload_however_it_is_named(
    cluster: Cluster, kind: ObjectKind, retired: bool, rights: Sequence[str]
) -> None:
    """As what it is, or as an object of the author's own topic; with slices of either, in an append or a swap."""
    attacker = Attacker(cluster)
    named, slice_ = attacker.secret(kind, retired=retired)
    theirs, own = attacker.id_of("secret"), attacker.append(named.object, slice_=slice_)
    swap = attacker.swap(named.object, slice_)
    (new,), (rewritten,) = own.slices, swap.slices
    of_both = (*own.epochs, PartitionEpoch(theirs, P0, LeaderEpoch(0)))
    commands: list[Command] = [
        own,
        replace(own, objects=(named.object,)),
        replace(own, slices=(replace(new, topic_id=theirs),)),
        replace(own, objects=(named.object,), slices=(replace(new, topic_id=theirs),)),
        replace(own, objects=(named.object,), slices=(replace(new, topic_id=theirs),), epochs=of_both),
        swap,
        replace(swap, objects=(named.object,)),
        replace(swap, slices=(replace(rewritten, new=replace(rewritten.new, topic_id=theirs)),)),
        replace(swap, topic_id=theirs),
        replace(swap, topic_id=theirs, objects=(named.object,)),
    ]
    before = cluster.connection.follower.catch_up().state
    refusals = [attacker.submit(command, rights) for command in commands]
    assert None not in refusals, refusals
    after = cluster.connection.follower.catch_up().state
    assert (list(after.objects), list(after.slices.everything())) == (
        list(before.objects),
        list(before.slices.everything()),
    )


@pytest.mark.parametrize("rights", [("write:mine",), RIGHTS], ids=" ".join)
def test_no_route_shows_a_record_of_another_topic(cluster: Cluster, rights: Sequence[str]) -> None:
    answers = Attacker(cluster).answers(rights)
    assert not [path for path, answer in answers.items() if any(text.encode() in answer.body for text in SECRETS)]
    assert answers[MESSAGES].status == 403
    statuses = [answers[path].status for path in (TOPIC, OFFSETS, PLAN)]
    assert statuses == [*(2 * [200 if "describe:*" in rights else 403]), 403], "a plan needs the right to read"


@pytest.mark.parametrize("is_damaged", [False, True], ids=["with its index", "with another checksum of the index"])
def test_an_upload_of_another_topic_that_was_never_committed_shows_nothing(cluster: Cluster, is_damaged: bool) -> None:
    """The chain can't know whose it is, so it is named. But its bytes say it, and so does its index."""
    attacker = Attacker(cluster)
    theirs = never_committed(cluster)
    (taken,) = theirs.objects
    if is_damaged:  # so that readers build the index again from the object
        taken = replace(taken, index_crc32c=taken.index_crc32c ^ 1)
    assert attacker.submit(attacker.append(taken, slice_=as_slice(theirs))) is None
    assert b"secret" not in attacker.page()
    with pytest.raises(Damaged, match="as the chain says, found one of partition 0 of topic id") as lost:
        values(cluster, topic="mine")
    assert "secret 9" not in str(lost.value)
    report = run_roll(cluster.connection.url, everything=True)
    assert report.exit_code == 1
    assert values(cluster, topic="secret") == SECRETS


def test_an_index_that_was_read_for_its_own_topic_is_compared_again(cluster: Cluster) -> None:
    """Indexes are cached by their key, whichever topic they were read for."""
    attacker = Attacker(cluster)
    theirs = never_committed(cluster)
    (taken,) = theirs.objects
    connection = cluster.connection
    store = connection.stores(connection.follower.state).get(taken.holders[0].store)
    read_index(store, data_key(taken, "secret"), NamedObject(ObjectNumber(0), taken))
    assert attacker.submit(attacker.append(taken, slice_=as_slice(theirs))) is None
    assert b"secret" not in attacker.page()
    with pytest.raises(Damaged):
        values(cluster, topic="mine")


def test_the_author_of_an_upload_that_was_named_by_another_is_refused_and_writes_it_again(cluster: Cluster) -> None:
    attacker = Attacker(cluster)
    theirs = never_committed(cluster)
    assert attacker.submit(attacker.append(*theirs.objects, slice_=as_slice(theirs))) is None
    connection = cluster.connection
    with pytest.raises(SparklogError, match="DUPLICATE_RESOURCE"):
        connection.submit(theirs)
    cluster.append("secret", rows(["secret 9"]))
    assert values(cluster, topic="secret") == [*SECRETS, "secret 9"]
