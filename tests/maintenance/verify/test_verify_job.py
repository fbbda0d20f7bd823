"""The verify job: it names exactly what is damaged, and finds nothing where nothing is."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest

from sparklog.core.errors import BrokerIdNotRegistered, InvalidInput, StoreReadOnly, StoreUnavailable
from sparklog.core.maintenance.differences import Difference, DifferenceKind
from sparklog.core.types import StoreId
from sparklog.log.cluster_stores import Stores
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.task_runner import LocalTasks, Task
from sparklog.maintenance.verify import look_tasks, verify_job
from sparklog.maintenance.verify.verify_job import VerifyReport, run_verify
from sparklog.storage.keys import INCARNATION
from sparklog.storage.memory import MemoryStore
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster
from tests.kit.silent_console import SILENT
from tests.maintenance.damager import KINDS, OBJECT_DAMAGE, Damager

SEEDS = 12


@pytest.fixture
def world() -> Iterator[ReplicatedCluster]:
    """Two partitions of sealed segments and append objects on the stores a, b and c."""
    world = replicated_cluster(partitions=2)
    world.write("0", "1", "2", partition=0)
    world.write("3", partition=1)
    roll(world)
    world.write(*map(str, range(10)))
    world.write("x", partition=1)
    yield world
    world.cluster.close()


def roll(world: ReplicatedCluster) -> None:
    assert run_roll(world.cluster.connection.url, everything=True, console=SILENT).exit_code == 0


def verified(world: ReplicatedCluster, **options: object) -> VerifyReport:
    return run_verify(world.cluster.connection.url, **{"console": SILENT, **options})  # type: ignore[arg-type]


def all_bodies(world: ReplicatedCluster) -> dict[tuple[str, str], bytes]:
    found = {(name, key): bytes(world.store(name).get(key)) for name in "abc" for key in world.objects(name)}
    meta = world.cluster.connection.follower.store
    return found | {("meta", stored.key): bytes(meta.get(stored.key)) for stored in meta.list_keys("")}


def data_keys(world: ReplicatedCluster) -> list[str]:
    return sorted(key for key in world.objects("a") if key.endswith(".arrow"))


def places(report: VerifyReport) -> set[tuple[str, str | None]]:
    return {(difference.store, difference.object) for difference in report.differences}


# ---- nothing is wrong ---------------------------------------------------------------------------------


# M: F-04
def test_a_whole_cluster_has_no_differences_and_stays_as_it_is(world: ReplicatedCluster) -> None:
    before, n = all_bodies(world), world.state.n
    report = verified(world)
    assert (report.exit_code, report.differences, report.failed) == (0, (), 0)
    after = all_bodies(world)
    assert {key: after[key] for key in before} == before
    assert world.state.n == n + 1, "the record of the run"
    assert set(after) - set(before) == {("meta", key) for name, key in set(after) - set(before)}
    assert report.done.objects == report.planned.objects
    assert report.done.records == report.planned.records == 3 * 15
    assert [row.place for row in report.partitions] == ["t on a", "t on b", "t on c", "metadata:chain"]


def test_a_dry_run_reads_no_object_and_a_run_costs_what_was_planned(world: ReplicatedCluster) -> None:
    planned = verified(world, dry_run=True, topics=["t"])
    done = verified(world, topics=["t"])
    assert planned.planned == done.planned == done.done
    assert planned.done.objects == 0


def test_nothing_is_deleted_and_floor_stays(world: ReplicatedCluster) -> None:
    """Retired objects whose delay has passed are left for retention, as is an old FLOOR."""
    world.cluster.delete_topic("t")
    assert len(world.state.retired) > 0
    before = {name: set(world.objects(name)) for name in "abc"}
    floor = world.state.floor
    run_with_due = verified(world, now_ms=2**45)
    assert {name: set(world.objects(name)) for name in "abc"} == before
    assert (run_with_due.deletion.planned.objects, world.state.floor) == (0, floor)


def test_where_nothing_can_be_written_it_still_verifies(
    world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: MemoryStore, key: str, body: object) -> None:
        raise StoreReadOnly(f"{key}: no")

    monkeypatch.setattr(MemoryStore, "put_if_absent", refuse)
    report = verified(world)
    assert (report.exit_code, report.differences) == (0, ())
    assert "the report could not be recorded in the chain" in report.notes[-1]


# ---- damage -------------------------------------------------------------------------------------------


# M: F-04 F-05
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_reported_objects_are_exactly_the_damaged_ones(world: ReplicatedCluster, seed: int) -> None:
    dice = random.Random(seed)
    keys = data_keys(world)
    wanted: dict[tuple[str, str], DifferenceKind | None] = {}
    for name in "abc":
        damager = Damager(world.store(name), dice)
        for key in dice.sample(keys, dice.randrange(len(keys))):
            how = dice.choice(OBJECT_DAMAGE)
            damager.damage(how, key, dice.choice([other for other in keys if other != key]))
            damaged = key.replace(".arrow", ".index") if how.endswith("index") else key
            wanted[name, damaged] = KINDS.get(how)
    report = verified(world, topics=["t"])
    assert places(report) == set(wanted)
    assert report.exit_code == (1 if wanted else 0)
    for place, kind in wanted.items():
        kinds = {row.kind for row in report.differences if (row.store, row.object) == place}
        assert kind is None or kind in kinds


def test_a_row_names_partition_offsets_and_what_to_do(world: ReplicatedCluster) -> None:
    key = next(key for key in data_keys(world) if key.startswith("topics/") and "/0/" in key)
    world.store("b").delete(key)
    (row,) = verified(world).differences
    assert (row.kind, row.store, row.object) == (DifferenceKind.OBJECT_MISSING, "b", key)
    assert (row.topic, row.partition, row.start, row.end) == ("t", 0, 0, 3)
    assert row.repairable is True
    assert row.advice == "run 'sparklog job recovery --full --store b'"
    for name in "ac":
        world.store(name).delete(key)
    rows = verified(world).differences
    assert [(row.store, row.repairable) for row in rows] == [("a", False), ("b", False), ("c", False)]
    assert "sparklog segment dump t -p 0 --offset 0" in rows[0].advice


def test_a_damaged_batch_is_named_by_its_offsets(world: ReplicatedCluster) -> None:
    key = next(key for key in data_keys(world) if key.startswith("topics/") and "/0/" in key)
    body = bytes(world.store("c").get(key))
    at = body.index(b"012")
    Damager(world.store("c"), random.Random(0)).put(key, body[:at] + b"X" + body[at + 1 :])
    rows = verified(world).differences
    assert {(row.kind, row.start, row.end) for row in rows} == {
        (DifferenceKind.OBJECT_CHECKSUM, None, None),
        (DifferenceKind.BATCH_CHECKSUM, 0, 3),
    }


def test_with_one_store_asked_for_nobody_knows_whether_it_can_be_repaired(world: ReplicatedCluster) -> None:
    world.store("b").delete(data_keys(world)[0])
    assert {row.repairable for row in verified(world, stores=["b"]).differences} == {None}
    assert verified(world, stores=["a", "c"]).differences == ()
    with pytest.raises(BrokerIdNotRegistered):
        verified(world, stores=["x"])


def test_a_store_in_another_life_is_named(world: ReplicatedCluster) -> None:
    world.wipe("c")
    kinds = {row.kind for row in verified(world).differences if row.store == "c"}
    assert kinds == {DifferenceKind.INCARNATION, DifferenceKind.OBJECT_MISSING, DifferenceKind.INDEX_MISSING}
    report = verified(world)
    assert INCARNATION in {row.object for row in report.differences}
    failed = {row.place for row in report.partitions if row.outcome is WorkOutcome.FAILED}
    assert failed == {"c", "t on c"}, "the row of the metadata is done"


def test_a_store_that_does_not_answer_is_named_once_and_the_others_are_verified(
    world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    get = Stores.get

    def unreachable(stores: Stores, store: StoreId) -> object:
        if store == "b":
            asked.append(store)
            raise StoreUnavailable("no answer")
        return get(stores, store)

    monkeypatch.setattr(Stores, "get", unreachable)
    report = verified(world)
    (row,) = report.differences
    assert (row.kind, row.store, row.topic, report.exit_code) == (DifferenceKind.UNREADABLE, "b", "t", 1)
    assert "no answer" in row.found
    assert {place.place: place.outcome for place in report.partitions}["t on a"] == "done"
    assert len(asked) < 2 * look_tasks.FAILURES_IN_A_ROW + 4


# ---- beside other jobs --------------------------------------------------------------------------------


class Interrupted(LocalTasks):
    """Something happens after the plan, before each round of tasks."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens = happens

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        self._happens()
        return super().run(task, payloads)


# M: F-04 R-04
def test_objects_that_roll_and_retention_delete_meanwhile_are_no_difference(world: ReplicatedCluster) -> None:
    url = world.cluster.connection.url

    def rewrite() -> None:
        world.write("y", partition=0)
        roll(world)
        run_retention(url, console=SILENT)

    before = set(world.objects("a"))
    report = verified(world, tasks=Interrupted(rewrite))
    assert before - set(world.objects("a")), "the objects of the plan are gone"
    assert (report.exit_code, report.differences) == (0, ())


def test_a_topic_that_is_deleted_meanwhile_is_no_difference(world: ReplicatedCluster) -> None:
    def delete() -> None:
        if world.state.topic_ids:
            world.cluster.delete_topic("t")
            run_retention(world.cluster.connection.url, console=SILENT)

    report = verified(world, tasks=Interrupted(delete))
    assert not [key for key in world.objects("a") if key.endswith(".arrow")]
    assert (report.exit_code, report.differences) == (0, ())


def test_a_store_that_is_fenced_meanwhile_may_lack_things(world: ReplicatedCluster) -> None:
    key = data_keys(world)[0]

    def fence() -> None:
        world.store("c").delete(key)
        if not world.state.stores[StoreId("c")].fenced:
            world.fence("c")
            world.register("c")

    report = verified(world, tasks=Interrupted(fence))
    assert [row.kind for row in report.differences if row.store == "c"] in ([], [DifferenceKind.OBJECT_MISSING])


# ---- shares, notes, the report ------------------------------------------------------------------------


def test_the_shares_of_following_days_are_everything_once(world: ReplicatedCluster) -> None:
    whole = verified(world, topics=["t"]).done.objects
    days = [verified(world, topics=["t"], share=3, now_ms=verify_job.DAY_MS * day) for day in range(3)]
    assert sum(day.done.objects for day in days) == whole
    assert all(day.done.objects < whole for day in days)
    assert days[1].notes[0] == "share 2 of 3: the next day has the next one"
    for share in (0, 10**30):
        with pytest.raises(InvalidInput, match="share: wanted 1"):
            verified(world, share=share)


def test_fenced_stores_are_left_out_by_name(world: ReplicatedCluster) -> None:
    world.fence("b")
    report = verified(world)
    assert report.notes == ("store b is fenced: it is not verified",)
    assert "t on b" not in [row.place for row in report.partitions]


def test_orphans_are_counted_and_no_difference(world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    stray = f"append/ab/{0:020d}-{'ab' * 16}.arrow"
    world.store("a").put_if_absent(stray, b"of a writer that failed")
    assert "orphans" not in [row.place for row in verified(world).partitions]
    run_retention(world.cluster.connection.url, console=SILENT, now_ms=2**45)  # FLOOR rises
    report = verified(world)
    (row,) = (row for row in report.partitions if row.place == "orphans")
    assert (row.done.objects, report.exit_code) == (1, 0)
    assert stray in world.objects("a")


def test_the_report_lists_the_differences_and_no_more_than_it_can_hold(
    world: ReplicatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in data_keys(world):
        world.store("a").delete(key)
    report = verified(world)
    read = msgspec.json.decode(report.to_json(), type=VerifyReport)
    assert read.differences == report.differences
    assert all(isinstance(difference, Difference) for difference in read.differences)
    monkeypatch.setattr(verify_job, "MOST_DIFFERENCES", 1)
    said = io.StringIO()
    short = verified(world, console=said)
    assert len(short.differences) == 1
    assert f"{len(report.differences)} differences" in said.getvalue()
    assert f"{short.differences[0]}: {short.differences[0].advice}\n" in said.getvalue()
