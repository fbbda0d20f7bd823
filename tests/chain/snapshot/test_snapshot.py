"""Snapshots: the state loaded is the state written, and damage is reported by name."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import google_crc32c
import msgspec
import pyarrow as pa
import pytest

from sparklog.chain.framing import frame
from sparklog.chain.snapshot import chunks, snapshot, snapshot_writer
from sparklog.chain.snapshot.chunks import Chunk
from sparklog.core.commands import AddPartitions, AllocateProducer, Application, ConfirmDeleted, MoveLogStart, ReportJob
from sparklog.core.errors import ChainDamaged, KeyExists, SparklogError, StoreUnavailable
from sparklog.core.tables import column_blocks
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.tables.object_table import ObjectTable
from sparklog.core.tables.result_table import ResultTable
from sparklog.core.tables.retired_table import RetiredTable
from sparklog.core.tables.slice_table import SliceTable
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, TopicPartition
from sparklog.storage.keys import CHUNKS, SNAPSHOTS, chunk_key, entry_key, snapshot_key
from sparklog.storage.object_store import ObjectStore
from tests.chain.chain_kit import TIMEOUT_MS, TOPIC, Member, append, member, new_chain
from tests.core.state_contents import contents
from tests.kit.faulty_store import Fault, FaultyStore


@pytest.fixture
def chain() -> Member:
    return new_chain()


def submit(chain: Member, command: Any) -> None:
    chain.committer.submit(chain.committer.begin(command), TIMEOUT_MS)


def live(chain: Member) -> None:
    """A state with a bit of everything."""
    submit(chain, AllocateProducer())
    for at in range(12):
        chain.append(records=3, partition=at % 2)
    chain.submit(chain.begin(append(2, producer=(0, 0, 0))))
    chain.submit(chain.begin(append(2, application=Application("app", 3, "run", "digest"))))
    submit(chain, MoveLogStart(TOPIC, PartitionIndex(0), Offset(7)))
    submit(chain, ConfirmDeleted(tuple(each.number for each in chain.follower.state.retired)[:1]))
    submit(chain, ReportJob("roll", 1, 2, 0, "{}"))


def replayed(chain: Member) -> Member:
    """A process that reads every entry from 0 on, without a snapshot."""
    other = FaultyStore(chain.store.inner)
    other.plan(Fault.STALE_404, "first_key_after", SNAPSHOTS, times=1_000)
    late = Member(other)
    late.follower.open()
    assert late.follower.snapshot_n == -1
    return late


# M: F-06 I-02
@pytest.mark.parametrize("tail_rows", [2, 10_000])
def test_snapshot_and_replay_equal_replay_from_entry_0(
    chain: Member, monkeypatch: pytest.MonkeyPatch, tail_rows: int
) -> None:
    for table in (SliceTable, ObjectTable, ResultTable, RetiredTable):
        monkeypatch.setattr(table, "TAIL_ROWS", tail_rows)
    monkeypatch.setattr(column_blocks, "MAX_BLOCK_ROWS", 8)
    for _ in range(3):
        live(chain)
        wanted = contents(chain.follower.state)
        chain.committer.snapshots.write()
        assert contents(chain.follower.state) == wanted  # taking a snapshot does not change the state
        late = member(chain.store.inner)
        assert late.follower.snapshot_n == chain.follower.state.n
        assert contents(late.follower.state) == wanted == contents(replayed(chain).follower.state)
        submit(chain, AddPartitions(TOPIC, chain.follower.state.topics[TOPIC].partitions + 1))
        chain.append()
        late.append()
        chain.follower.catch_up()
        assert (
            contents(late.follower.state) == contents(chain.follower.state) == contents(replayed(chain).follower.state)
        )


def test_a_snapshot_of_a_state_leaves_it_as_it_is(chain: Member) -> None:
    chain.append()
    state = chain.follower.state.fork()
    before = contents(state)
    snapshot.prepare(state, "f" * 64, {})
    assert (state.slices.blocks, state.objects.blocks, contents(state)) == ((), (), before)


def test_what_was_encoded_for_a_snapshot_is_not_encoded_for_the_next(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        chain.append()
    state = chain.follower.state.fork()
    state.slices.seal()
    state.objects.seal()
    state.results.seal()
    known: dict[str, Chunk] = {}
    first = snapshot.prepare(state, "f" * 64, known)
    monkeypatch.setattr(chunks, "_encode_columns", None)  # it would be called
    later = state.fork()
    later.slices.remove(TopicPartition(TOPIC, PartitionIndex(0)), OffsetRange(Offset(0), Offset(1)))
    again = snapshot.prepare(later, "f" * 64, known)
    assert [each.sha256 for each in again.manifest.slices] == [each.sha256 for each in first.manifest.slices]
    assert [each.dead for each in again.manifest.slices] == [((0, 1),)]


def test_equal_states_lead_to_equal_chunks_however_their_maps_came_about(chain: Member) -> None:
    state, other = chain.follower.state.fork(), chain.follower.state.fork()
    other.partitions = CopyOnWriteMap(reversed(list(state.partitions.items())))
    assert list(other.partitions) != list(state.partitions)
    named = [snapshot.prepare(each, "f" * 64, {}).manifest.partitions.sha256 for each in (state, other)]
    assert named[0] == named[1]


def test_the_newest_snapshot_is_the_first_key(chain: Member) -> None:
    for _ in range(3):
        chain.append()
        chain.committer.snapshots.write()
    found = snapshot.newest(chain.store)
    assert found is not None
    assert found.n == 4
    assert [each.key for each in chain.store.list_keys(SNAPSHOTS)] == [snapshot_key(n) for n in (4, 3, 2)]


def test_a_chunk_that_did_not_change_is_not_written_again(chain: Member) -> None:
    chain.append()
    chain.committer.snapshots.write()
    chain.store.calls.clear()
    chain.append()
    chain.committer.snapshots.write()
    written = [key for method, key in chain.store.calls if method == "put_if_absent" and key.startswith(CHUNKS)]
    # a block of slices, objects and results each (the small ones were merged), partitions
    assert len(written) == 4
    chain.store.calls.clear()
    chain.committer.snapshots.write()
    assert chain.store.count("put_if_absent") == 0


def test_rows_that_died_cost_no_new_chunk(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SliceTable, "TAIL_ROWS", 3)
    for _ in range(8):
        chain.append()
    chain.committer.snapshots.write()
    before = snapshot.newest(chain.store)
    submit(chain, MoveLogStart(TOPIC, PartitionIndex(0), Offset(2)))
    chain.committer.snapshots.write()
    after = snapshot.newest(chain.store)
    assert before is not None
    assert after is not None
    assert [each.sha256 for each in before.slices] == [each.sha256 for each in after.slices]
    assert [each.dead for each in after.slices] == [((0, 2),)]
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)


def test_two_members_may_write_the_same_snapshot(chain: Member) -> None:
    chain.append()
    late = member(chain.store.inner)
    assert chain.committer.snapshots.write() == late.committer.snapshots.write() == 2
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)


def test_one_is_written_after_a_number_of_entries_and_close_waits_for_it(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_writer, "SNAPSHOT_EVERY", 5)
    for _ in range(3):  # the chain begins with an entry; more would run beside the thread that writes the snapshot
        chain.append()
    chain.committer.close()
    found = snapshot.newest(chain.store)
    assert found is not None
    assert found.n == chain.follower.snapshot_n == 4


def test_a_snapshot_that_fails_costs_no_commit_and_is_tried_again(
    chain: Member, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshot_writer, "SNAPSHOT_EVERY", 3)
    chain.store.plan(Fault.UNAVAILABLE, "put_if_absent", CHUNKS)
    chain.append()
    chain.committer.close()
    assert "no snapshot of the metadata chain was written" in caplog.text
    assert snapshot.newest(chain.store) is None
    chain.append()
    chain.committer.close()
    found = snapshot.newest(chain.store)
    assert found is not None
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST, Fault.OWN_KEY_EXISTS])
@pytest.mark.parametrize("at", range(7))
def test_a_snapshot_with_a_lost_reply_anywhere_is_whole_or_not_there(chain: Member, fault: Fault, at: int) -> None:
    live(chain)
    chain.store.plan(fault, "put_if_absent", "meta/", skip=at)
    try:
        chain.committer.snapshots.write()
    except SparklogError:
        chain.committer.snapshots.write()
    assert contents(member(chain.store.inner).follower.state) == contents(replayed(chain).follower.state)


def damaged(store: ObjectStore, key: str, body: bytes | None) -> bytes:
    """Put other bytes under a key, or none. Returns what was there."""
    whole = bytes(store.get(key))
    store.delete(key)
    if body is not None:
        store.put_if_absent(key, body)
    return whole


def repaired(store: ObjectStore, key: str, whole: bytes) -> None:
    store.delete(key)
    store.put_if_absent(key, whole)


def test_any_flipped_bit_or_cut_is_named_and_an_older_snapshot_or_the_entries_are_read(
    chain: Member, caplog: pytest.LogCaptureFixture
) -> None:
    live(chain)
    chain.committer.snapshots.write()
    chain.append()
    chain.committer.snapshots.write()
    wanted = contents(chain.follower.state)
    store = chain.store.inner
    newest = snapshot.newest(store)
    assert newest is not None
    files = [snapshot_key(newest.n), *(chunk_key(each) for each in snapshot.known_chunks(newest))]
    dice = random.Random(20261121)
    for _ in range(200):
        key = dice.choice(files)
        broken = bytearray(store.get(key))
        broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
        if dice.random() < 0.3:
            broken = broken[: dice.randrange(len(broken))]
        caplog.clear()
        whole = damaged(store, key, bytes(broken))
        assert contents(member(store).follower.state) == wanted
        assert key in caplog.text
        repaired(store, key, whole)
    caplog.clear()
    assert contents(member(store).follower.state) == wanted
    assert not caplog.text


def test_a_missing_chunk_is_named_and_the_entries_are_read(chain: Member, caplog: pytest.LogCaptureFixture) -> None:
    chain.append()
    chain.committer.snapshots.write()
    for key in [each.key for each in chain.store.list_keys(CHUNKS)]:
        whole = damaged(chain.store.inner, key, None)
        assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)
        assert f"{key} at memory://" in caplog.text
        chain.store.inner.put_if_absent(key, whole)


@pytest.mark.parametrize("which", ["slices", "small"])
def test_a_chunk_of_another_table_in_place_of_one_is_named_and_the_entries_are_read(
    chain: Member, caplog: pytest.LogCaptureFixture, which: str
) -> None:
    """Also a chunk that another version wrote with other columns."""
    chain.append()
    chain.committer.snapshots.write()
    manifest = snapshot.newest(chain.store)
    assert manifest is not None
    other = manifest.slices if which == "slices" else (manifest.small,)
    wrong = snapshot.Prepared(msgspec.structs.replace(manifest, results=other))
    chain.store.inner.delete(snapshot_key(manifest.n))
    for key, body in snapshot.objects_of(wrong):
        chain.store.inner.put_if_absent(key, body)
    assert member(chain.store.inner).uploads() == chain.uploads()
    assert f"{chunk_key(other[0].sha256)} at {chain.store.url}" in caplog.text
    assert "can't be read as a table of id_high, id_low, n, n0, label" in caplog.text


def without_column(chain: Member, table: str, column: str) -> snapshot.Manifest:
    """The newest snapshot, written again with a table whose chunks lack a column."""
    manifest = snapshot.newest(chain.store)
    assert manifest is not None
    made: list[Chunk] = []
    wrong = snapshot.Prepared(manifest)
    for chunk in getattr(manifest, table):
        with pa.ipc.open_file(pa.py_buffer(chain.store.get(chunk_key(chunk.sha256)))) as file:
            kept = file.read_all().drop_columns([column])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, kept.schema) as writer:
            writer.write_table(kept)
        body = bytes(sink.getvalue())
        sha256 = hashlib.sha256(body).hexdigest()
        wrong.bodies[sha256] = body
        made.append(Chunk(sha256, google_crc32c.value(body), len(body), chunk.rows, chunk.dead))
    assert made
    wrong.manifest = msgspec.structs.replace(manifest, **{table: tuple(made)})
    chain.store.inner.delete(snapshot_key(manifest.n))
    for key, body in snapshot.objects_of(wrong):
        chain.store.inner.put_if_absent(key, body)
    return wrong.manifest


@pytest.mark.parametrize(
    ("table", "column"), [("results", "n0"), ("retired", "stores"), ("slices", "end"), ("objects", "kind")]
)
def test_a_chunk_that_lacks_a_column_is_damage(chain: Member, table: str, column: str) -> None:
    live(chain)
    chain.committer.snapshots.write()
    manifest = without_column(chain, table, column)
    with pytest.raises(ChainDamaged, match=f"can't be read as a table of .*{column}"):
        snapshot.load(chain.store, manifest)


def test_a_chunk_with_the_right_checksum_that_is_no_arrow_file_is_damage(chain: Member) -> None:
    chain.committer.snapshots.write()
    manifest = snapshot.newest(chain.store)
    assert manifest is not None
    body = bytes(chain.store.get(chunk_key(manifest.results[0].sha256)))
    body = body[:-60] + bytes(50) + body[-10:]  # the length of the footer is right, its content is not
    wrong = Chunk(hashlib.sha256(body).hexdigest(), google_crc32c.value(body), len(body), manifest.results[0].rows)
    chain.store.inner.put_if_absent(chunk_key(wrong.sha256), body)
    with pytest.raises(ChainDamaged, match="can't be read as a table of id_high"):
        snapshot.load(chain.store, msgspec.structs.replace(manifest, results=(wrong,)))


def test_damage_is_an_error_if_neither_an_older_snapshot_nor_the_first_entry_is_there(chain: Member) -> None:
    chain.append()
    chain.committer.snapshots.write()
    store = chain.store.inner
    newest = snapshot.newest(store)
    assert newest is not None
    key = chunk_key(newest.topics.sha256)
    damaged(store, key, b"damaged")
    store.delete(entry_key(0))
    with pytest.raises(ChainDamaged, match=f"{key} at memory://.*: wanted .*; put {key} back from"):
        member(store)


def test_the_next_snapshot_writes_a_damaged_chunk_anew(chain: Member, caplog: pytest.LogCaptureFixture) -> None:
    chain.append()
    chain.committer.snapshots.write()
    store = chain.store.inner
    newest = snapshot.newest(store)
    assert newest is not None
    key = chunk_key(newest.topics.sha256)
    whole = damaged(store, key, b"x" * newest.topics.size_bytes)
    late = member(store)  # by the entries
    late.append()
    late.committer.snapshots.write()
    assert bytes(store.get(key)) == whole
    assert f"{key} at memory://" in caplog.text
    caplog.clear()
    assert contents(member(store).follower.state) == contents(late.follower.state)
    assert not caplog.text


def test_a_damaged_newest_manifest_does_not_keep_the_next_snapshot_from_being_written(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain.append()
    chain.committer.snapshots.write()
    monkeypatch.setattr(snapshot_writer, "SNAPSHOT_EVERY", 3)
    damaged(chain.store.inner, snapshot_key(2), b"damaged")
    for _ in range(3):
        chain.append()
    chain.committer.close()
    newest = snapshot.newest(chain.store)
    assert newest is not None
    assert newest.n == 5


def test_a_process_learns_of_the_snapshots_of_others(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_writer, "SNAPSHOT_EVERY", 3)
    other = member(chain.store.inner)
    for _ in range(6):
        chain.append()
        chain.committer.close()
        other.append()
        other.committer.close()
    written = [each.key for each in chain.store.list_keys(SNAPSHOTS)]
    assert len(written) == (chain.follower.state.n + 1) // 3, "one for every three entries, whoever writes them"


def test_who_finds_another_ones_snapshot_in_its_place_goes_by_that_ones_chunks(chain: Member) -> None:
    chain.append()
    head = chain.follower.head
    theirs = snapshot.prepare(head.state, head.entry_hash, {})
    other_chunks = msgspec.structs.replace(theirs.manifest, topics=theirs.manifest.small)
    chain.store.put_if_absent(snapshot_key(head.n), frame("snapshot", msgspec.json.encode(other_chunks)))
    chain.committer.snapshots.write()
    assert chain.follower.known_chunks == snapshot.known_chunks(other_chunks)


def test_a_chunk_that_can_not_be_read_now_is_no_damage(chain: Member) -> None:
    chain.append()
    chain.committer.snapshots.write()
    late = Member(FaultyStore(chain.store.inner))
    late.store.plan(Fault.UNAVAILABLE, "get", CHUNKS)
    with pytest.raises(StoreUnavailable):
        late.follower.open()
    late.follower.open()
    assert contents(late.follower.state) == contents(chain.follower.state)


def test_a_chunk_that_is_refused_as_taken_and_is_not_there_ends_the_snapshot(chain: Member) -> None:
    chain.append()

    def refuse() -> None:
        raise KeyExists("taken, says a proxy")

    chain.store.plan(refuse, "put_if_absent", CHUNKS)
    with pytest.raises(StoreUnavailable, match="is not there"):
        chain.committer.snapshots.write()
    assert not list(chain.store.list_keys(SNAPSHOTS))
    chain.committer.snapshots.write()
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)


def test_a_manifest_under_another_number_is_damage(chain: Member) -> None:
    chain.append()
    chain.committer.snapshots.write()
    chain.store.inner.put_if_absent(snapshot_key(9), bytes(chain.store.get(snapshot_key(2))))
    with pytest.raises(ChainDamaged, match="wanted the snapshot of entry 9, found 2"):
        snapshot.newest(chain.store)
    assert contents(member(chain.store.inner).follower.state) == contents(chain.follower.state)
