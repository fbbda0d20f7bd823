"""Which of an object's holders is asked, in which order, and what is said if none can answer."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pytest

from sparklog.core.errors import (
    Damaged,
    DataLoss,
    InvalidInput,
    KeyNotFound,
    SparklogError,
    StoreAccessDenied,
    StoreUnavailable,
    UnsupportedVersion,
)
from sparklog.core.reading.plan import RangeToRead, SliceToRead
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    NamedObject,
    ObjectNumber,
    Offset,
    PartitionIndex,
    StoreId,
    TopicId,
    UploadId,
)
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.read.first_holder import NoHolderAnswers, first_answer, from_first_holder
from sparklog.log.read.read_errors import unreadable
from sparklog.log.read.scan import scan
from sparklog.log.rewrite.segment_roll import rewrite
from sparklog.log.write.segments_writer import SegmentTarget
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore
from tests.kit.faulty_store import ALWAYS, FaultyStore
from tests.log.written_log import WrittenLog, empty_store, lanes_of, part_of, parts_of, stores_of, upload_ids, write

RECORDS = 120
VALUES = [b"%030d" % number for number in range(RECORDS)]


def dead_store() -> FaultyStore:
    store = FaultyStore(MemoryStore("memory://dead"))
    store.plan(StoreUnavailable("found no answer"), times=ALWAYS)
    return store


@pytest.fixture
def log() -> WrittenLog:
    """Slices on store "a"; value = offset."""
    return write(empty_store(), [pa.record_batch({"value": VALUES})], 1, compression="none")


def held_by(log: WrittenLog, holders: str) -> list[SliceToRead]:
    """The slices, as if these stores had held their objects when they were named."""
    held = tuple(Holder(StoreId(each), 1) for each in holders)
    return [
        part_of(part.slice, NamedObject(part.object.number, msgspec.structs.replace(part.object.object, holders=held)))
        for part in parts_of(log)
    ]


def asked(log: WrittenLog, answers: dict[str, SparklogError | str]) -> str:
    """What the first holder says that can, if each one says this."""
    stores = stores_of(log, **{name: MemoryStore(f"memory://holder-{name}") for name in answers})

    def ask(store: ObjectStore, key: str) -> str:
        assert key == log.key(log.slices[0])
        answer = answers[str(stores.id_of(store))]
        if isinstance(answer, SparklogError):
            raise answer
        return answer

    return first_answer(stores, held_by(log, "".join(answers))[0], "orders", Offset(3), ask)


# ---- the order, and who is passed over ------------------------------------------------------------


def test_holders_are_asked_in_their_order_until_one_answers(log: WrittenLog) -> None:
    assert asked(log, {"d": "d's", "b": "b's"}) == "d's"
    assert asked(log, {"d": KeyNotFound("gone"), "c": Damaged("torn"), "b": "b's", "e": "e's"}) == "b's"
    assert asked(log, {"d": InvalidInput("found no bucket 'zone-a' there"), "b": "b's"}) == "b's"


def test_what_is_the_same_everywhere_is_asked_once(log: WrittenLog) -> None:
    with pytest.raises(UnsupportedVersion):
        asked(log, {"d": UnsupportedVersion("wanted format 1, found 2"), "b": "b's"})


def test_wrong_columns_are_no_holders_fault(log: WrittenLog) -> None:
    with pytest.raises(InvalidInput) as caught:
        list(scan(plan_of(held_by(log, "a")), stores_of(log), ["price"], never))
    assert "orders" not in str(caught.value)


def test_a_store_that_cannot_be_opened_is_passed_over(log: WrittenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    get = Stores.get

    def opened(stores: Stores, store: StoreId) -> ObjectStore:
        if store == "b":
            raise InvalidInput("timeout_ms: wanted a whole number, found 'soon'")
        return get(stores, store)

    monkeypatch.setattr(Stores, "get", opened)
    stores = Stores(StoreAddresses("memory://written-log", {StoreId("b"): "there", StoreId("a"): "."}))
    plan = plan_of(held_by(log, "ba"))
    assert [value for each in scan(plan, stores, ["value"], never) for value in each["value"].to_pylist()] == VALUES


def test_a_roll_whose_first_store_is_dead_reads_from_the_second(log: WrittenLog) -> None:
    stores = stores_of(log, b=dead_store())
    target = SegmentTarget(
        TopicId(5),
        "orders",
        PartitionIndex(0),
        EntryNumber(9),
        (Holder(StoreId("a"), 1),),
        1 << 30,
        "zstd",
    )
    ids = upload_ids(1_000)
    rolled = rewrite(held_by(log, "ba"), target, stores, lanes_of(a=log.store), lambda: UploadId(next(ids)))
    assert [(each.start, each.end) for each in rolled.slices] == [(0, RECORDS)]
    with pytest.raises(StoreUnavailable, match=r"orders-0 from offset 0 on: .*found no answer \(store b at "):
        rewrite(held_by(log, "b"), target, stores, lanes_of(a=log.store), lambda: UploadId(next(ids)))


def test_the_next_holder_goes_on_behind_what_the_one_before_gave(log: WrittenLog) -> None:
    begun: list[int] = []

    def read(store: ObjectStore, key: str, start: Offset) -> Iterator[tuple[Offset, int]]:
        begun.append(start)
        for at in range(start, start + 2):
            yield Offset(at + 1), at
        raise StoreUnavailable("no answer")

    stores = stores_of(log, b=log.store, c=log.store)
    reading = from_first_holder(stores, held_by(log, "abc")[0], "orders", Offset(4), read)
    found = [next(reading)[1] for _ in range(6)]
    with pytest.raises(NoHolderAnswers) as caught:
        next(reading)
    assert begun == [4, 6, 8]
    assert found == [4, 5, 6, 7, 8, 9]
    assert caught.value.at == 10


# ---- what is said if none answers -----------------------------------------------------------------


def said(log: WrittenLog, **errors: SparklogError) -> SparklogError:
    """The error of a reader whose holders say this, in this order."""
    with pytest.raises(NoHolderAnswers) as caught:
        asked(log, dict(errors))
    assert [each.error for each in caught.value.failures] == list(errors.values())
    return unreadable(caught.value)


def test_records_are_not_lost_while_a_holder_does_not_answer(log: WrittenLog) -> None:
    down, gone = StoreUnavailable("no answer"), KeyNotFound("not there")
    torn, denied = Damaged("wanted CRC32C 1, found 2"), StoreAccessDenied("may not read")
    for errors, kind in (
        ((down, gone), StoreUnavailable),
        ((gone, down), StoreUnavailable),
        ((denied, gone), StoreAccessDenied),
        ((torn, denied, gone), StoreAccessDenied),
        ((torn, gone), Damaged),
        ((gone, torn), Damaged),
        ((gone, gone), DataLoss),
    ):
        assert type(said(log, **dict(zip("bcd", errors, strict=False)))) is kind


def test_the_error_names_every_holder_and_what_it_said(log: WrittenLog) -> None:
    message = str(said(log, b=KeyNotFound("not there"), c=StoreUnavailable("no answer"), d=Damaged("torn")))
    assert message == (
        "KAFKA_STORAGE_ERROR: orders-0 from offset 3 on: no answer (other holders: "
        "store b at memory://holder-b: KEY_NOT_FOUND: not there; "
        "store d at memory://holder-d: CORRUPT_MESSAGE: torn) (store c at memory://holder-c)"
    )


def test_an_object_that_no_known_store_holds_is_lost(log: WrittenLog) -> None:
    with pytest.raises(DataLoss, match=r"orders-0: records \[0, \d+\) are lost: object 0 is on none of the cluster's"):
        list(scan(plan_of(held_by(log, "xy")), stores_of(log), ["value"], lambda plan, at: plan))


def test_a_scan_asks_the_chain_again_if_any_holder_has_lost_the_object(log: WrittenLog) -> None:
    """It was replaced, and deleted from the holder that is up."""
    stores = stores_of(log, b=dead_store(), c=MemoryStore("memory://holder-c"))
    asked_at: list[int] = []

    def replaced(plan: RangeToRead, at: Offset) -> RangeToRead:
        asked_at.append(at)
        parts = held_by(log, "a")
        number = ObjectNumber(100)
        return plan_of([part_of(each.slice, NamedObject(number, each.object.object)) for each in parts])

    found = scan(plan_of(held_by(log, "cb")), stores, ["value"], replaced)
    assert [value for each in found for value in each["value"].to_pylist()] == VALUES
    assert asked_at == [0]
    with pytest.raises(StoreUnavailable):
        list(scan(plan_of(held_by(log, "cb")), stores, ["value"], lambda plan, at: plan))
    with pytest.raises(StoreUnavailable):
        list(scan(plan_of(held_by(log, "b")), stores, ["value"], never))


def plan_of(parts: list[SliceToRead]) -> RangeToRead:
    return RangeToRead(
        "orders", TopicId(5), PartitionIndex(0), Offset(0), Offset(RECORDS), tuple(parts), 0, "", LeaderEpoch(0)
    )


def never(plan: RangeToRead, at: Offset) -> RangeToRead:
    raise AssertionError("nothing is planned again")
