"""Objects that every store has lost and reported, so that no replica may lead: their records are given up by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sparklog.core.errors import DataLoss
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state_invariants import check
from tests.agent.agent_world import DrivenAgent
from tests.faults.deadly_calls import dying_at, every_change
from tests.maintenance.damaged_log import DamagedLog, damaged_log, logs, messages
from tests.maintenance.silent_store import silent

LAST = 4  # number of the last object of a new log
STARTS = {0: 0, 2: 3, 3: 6}  # the objects of partition 0, three records in each


@pytest.fixture
def log() -> Iterator[DamagedLog]:
    yield from logs()


def lose_everywhere(log: DamagedLog, number: int) -> None:
    """The object is gone from each store, and each store's log ends before it."""
    for store in "abc":
        log.damage(store, number, "lost")
        log.report_loss(store, STARTS[number])
    assert log.world.value(0).leader is None


def goes_on(log: DamagedLog, *lost: tuple[int, int]) -> None:
    """Partition 0 is served again, without these records alone; the next runs find nothing to repair."""
    check(log.world.state)
    assert log.lost() == list(lost)
    kept = [value for at, value in enumerate(log.model[0]) if not any(low <= at < high for low, high in lost)]
    assert log.left(0) == kept
    end = log.world.value(0).next_offset
    log.write(1, on="".join(log.world.value(0).isr))
    assert log.world.value(0).high_watermark == end + 1
    assert log.left(0) == [*kept, log.model[0][-1]]
    for _ in range(2):
        report = log.recover()
        assert report.exit_code == 0, messages(report)
    assert log.recover().partitions == ()
    assert log.world.value(0).isr == ("a", "b", "c")
    log.check_same()


# M: F-04 P-06
@pytest.mark.parametrize("number", [0, 2, 3], ids=["first", "middle", "last"])
def test_on_real_stores_an_accepted_loss_gives_the_partition_a_leader_again(tmp_path: Path, number: int) -> None:
    """The agents find out that the files are gone. What lies behind them is whole on each store, and is kept."""
    log = damaged_log(str(tmp_path / "log"))
    for store in "abc":
        log.damage(store, number, "lost")
    for _ in range(2):
        for store in "abc":
            DrivenAgent(log.world, store, once=True).run(2_000)
    start = STARTS[number]
    assert log.world.replicas(0) == f"-: a{start} b{start} c{start}"
    report = log.recover()
    assert report.exit_code == 1
    assert f"records [{start}, {start + 3}) of t-0 are on no store any more" in messages(report)
    assert "or give them up with --accept-loss" in messages(report)
    assert (log.world.value(0).leader, log.lost()) == (None, [])
    report = log.recover(accept_loss=True)
    assert report.exit_code == 0, messages(report)
    assert f"records [{start}, {start + 3}) of t-0 were given up (--accept-loss)" in messages(report)
    with pytest.raises(DataLoss):
        log.world.values(0)
    goes_on(log, (start, start + 3))
    assert log.world.values(1) == log.model[1]
    log.world.cluster.close()


# M: F-04 P-06
def test_several_lost_objects_are_given_up_in_one_run(log: DamagedLog) -> None:
    for number in (3, 0):
        lose_everywhere(log, number)
    assert log.recover(accept_loss=True).exit_code == 0
    goes_on(log, (0, 3), (6, 9))


# M: F-04
def test_uncommitted_records_behind_a_lost_object_are_found_before_a_leader_is_elected(log: DamagedLog) -> None:
    log.world.cluster.alter("t", config={"min.insync.replicas": 2})
    log.write(2, on="a", acks=Acks.LEADER)
    log.write(1, on="a", acks=Acks.LEADER)
    for store in "cba":
        log.damage(store, 3, "lost")
        log.report_loss(store, 6)
    assert (log.world.replicas(0), log.world.value(0).high_watermark) == ("-: a6 b6 c6", 9)
    report = log.recover(accept_loss=True)
    assert report.exit_code == 0, messages(report)
    goes_on(log, (6, 9))


# M: F-04
def test_uncommitted_records_that_nobody_has_go_with_the_election(log: DamagedLog) -> None:
    log.world.cluster.alter("t", config={"min.insync.replicas": 2})
    log.write(2, on="a", acks=Acks.LEADER)
    del log.model[0][-2:]
    for store, numbers in (("c", (3,)), ("b", (3,)), ("a", (3, LAST + 1))):
        for number in numbers:
            log.damage(store, number, "lost")
        log.report_loss(store, 6)
    report = log.recover(accept_loss=True)
    assert "was never committed: the next leader decides about it" in messages(report)
    assert log.world.value(0).leader is not None, messages(report)
    assert log.lost() == [(6, 9)]
    assert log.left(0) == log.model[0][:6]


# M: F-04
def test_what_a_fenced_store_may_have_is_not_given_up(log: DamagedLog) -> None:
    """It lost an earlier object, so by the chain it holds nothing from there on, but it has the bytes."""
    log.damage("c", 0, "lost")
    log.report_loss("c", 0)
    log.world.fence("c")
    for store in "ba":
        log.damage(store, 2, "lost")
        log.report_loss(store, 3)
    report = log.recover(accept_loss=True)
    assert report.exit_code == 1
    assert "it can't be repaired now: store c is fenced, and may have it whole" in messages(report)
    assert log.lost() == []
    log.world.register("c")
    for _ in range(3):
        report = log.recover()
    assert report.exit_code == 0, messages(report)
    log.check()


# M: F-04
@pytest.mark.parametrize("has_it", [True, False])
def test_what_a_fenced_store_holds_by_the_chain_is_fetched_from_there_or_not_given_up(
    log: DamagedLog, has_it: bool
) -> None:
    log.world.fence("c")
    for store in "ba":
        log.damage(store, 2, "lost")
        log.report_loss(store, 3)
    if not has_it:
        log.damage("c", 2, "lost")
    report = log.recover(accept_loss=True)
    assert (report.exit_code, log.lost()) == (0 if has_it else 1, []), messages(report)
    log.world.register("c")
    if not has_it:
        log.report_loss("c", 3)
        assert log.recover(accept_loss=True).exit_code == 0
        goes_on(log, (3, 6))
        return
    assert log.recover().exit_code == 0
    log.check()


# M: F-04
def test_while_a_replica_is_silent_nothing_is_given_up(log: DamagedLog) -> None:
    """By the chain c does not hold the object, but it may have the bytes."""
    log.damage("c", 0, "lost")
    log.report_loss("c", 0)
    for store in "ba":
        log.damage(store, 2, "lost")
        log.report_loss(store, 3)
    with silent("c"):
        report = log.recover(accept_loss=True)
    assert "it can't be repaired now: store c: " in messages(report)
    assert log.lost() == []
    for _ in range(3):
        report = log.recover()
    assert report.exit_code == 0, messages(report)
    log.check()


# M: F-04
def test_good_batches_without_a_leader_are_kept_and_reported(log: DamagedLog) -> None:
    """They would have to be rewritten, and a segment must be on the store of a leader."""
    log.write_batches(4, 1)
    number = LAST + 1
    slice_, index = log.slice_of(number)
    log.cut_in_batch("b", number, 2, index)
    for store in "ac":
        log.damage(store, number, "lost")
    for store in "abc":
        log.report_loss(store, slice_.start, 1)
    left = bytes(log.world.store("b").get(log.key(number)))
    report = log.recover(accept_loss=True)
    assert report.exit_code == 1
    assert f"of t-1 [{slice_.start}, {slice_.end}) can't be rewritten without a leader" in messages(report)
    assert log.lost() == []
    assert bytes(log.world.store("b").get(log.key(number))) == left


# M: F-04 P-06
def test_an_object_of_two_partitions_is_given_up_where_nobody_leads_and_where_somebody_does(log: DamagedLog) -> None:
    values = pa.array([b"x", b"y"])
    log.world.cluster.append("t", pa.table({"value": values, "partition": pa.array([0, 1], pa.int32())}))
    for store in "abc":
        log.damage(store, LAST + 1, "lost")
    for store in "cba":
        log.report_loss(store, 9)
    assert (log.world.value(0).leader is None, log.world.value(1).leader is None) == (True, False)
    report = log.recover(accept_loss=True)
    assert report.exit_code == 0, messages(report)
    assert log.lost() == [(9, 10), (3, 4)]
    assert log.world.value(0).leader is not None
    assert log.left(1) == log.model[1]


# M: F-04 P-06
def test_a_run_that_dies_anywhere_and_runs_again_gives_up_just_these_records(request: pytest.FixtureRequest) -> None:
    """A plain run, too, elects a leader if one that gave up records could not do it. At every second change."""
    step, came = 0, True
    while came:
        log = damaged_log()
        lose_everywhere(log, 3)
        with dying_at(log.url, every_change(log.url), "before", step) as death:
            assert log.recover(accept_loss=True).exit_code == 0
        came = death.came
        check(log.world.state)
        given_up = bool(log.lost())
        log.recover()
        assert (log.world.value(0).leader is not None) == given_up
        assert log.recover(accept_loss=True).exit_code == 0
        goes_on(log, (6, 9))
        log.world.cluster.close()
        step += 1 if request.config.getoption("--campaign") else 2
    assert step > 5


def test_an_election_that_is_not_possible_yet_is_noted(log: DamagedLog) -> None:
    """The agents of all stores have fallen silent, though the job can read the stores."""
    from sparklog.core.commands import AgentDown, AgentUp

    lose_everywhere(log, 3)
    for store in log.world.state.stores.values():
        log.world.submit(AgentUp(store.store, store.registration))
        log.world.submit(AgentDown(store.store, store.registration))
    assert log.recover(accept_loss=True).exit_code == 0
    assert (log.world.value(0).leader, log.lost()) == (None, [(6, 9)])
    for store in log.world.state.stores.values():
        log.world.submit(AgentUp(store.store, store.registration))
    assert log.world.replicas(0) == "a:a a9 b9 c9"
