"""The end of a history: everybody finishes undisturbed, and then nothing is lost and nothing is left for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sparklog
from sparklog.client.stores.add_store import add_store
from sparklog.core.types import StoreId
from sparklog.maintenance.job_report import JobReport
from sparklog.maintenance.replication_job import run_replication
from sparklog.maintenance.rewrite.compaction_job import run_compaction
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.maintenance.verify.verify_job import run_verify
from sparklog.storage.keys import APPENDS, CHUNKS, COMMANDS, SNAPSHOTS, TOPICS, data_key, entry_block, index_key
from tests.core.state_contents import contents
from tests.kit.silent_console import SILENT
from tests.maintenance.histories.shape import FLOOR_DELAY_MS, TOPIC, Step
from tests.maintenance.keyed_log import DictShuffle
from tests.maintenance.old_chain import BLOCK, entries

if TYPE_CHECKING:
    from tests.maintenance.histories.history import History

LONG_MS = 1 << 20  # longer than every delay of a log


def come_to_rest(history: History) -> None:
    """Let everything come to an end, and check what is left. Raises AssertionError."""
    half = len(history.reads) // 2
    for read in history.reads[:half]:
        read.finish(history)
    _heal(history)
    _tidy(history)
    for read in history.reads[half:]:  # of much that they planned to read, the objects are deleted
        read.finish(history)
    floor = _trim_chain(history)
    _check_stores(history)
    _check_chain(history, floor)
    history.play(Step("append", history.seed))


def _run(history: History, run: Callable[..., JobReport], *, may_fail: bool = False, **options: Any) -> None:
    began_ms = history.clock.at_ms
    report = run(history.url, clock=history.clock, console=SILENT, **options)
    assert report.exit_code == 0 or may_fail, f"8: {report.to_json()}"
    history.observe(began_ms)
    history.forget_repaired()
    history.check_objects()


def _heal(history: History) -> None:
    """Every store is back, whole and in sync."""
    for store in history.state().stores.values():
        if store.fenced:
            add_store(history.cluster.connection, store.store, store.url)
    for _ in range(
        2
    ):  # a copy does not replace what is damaged, and a repair waits until others have what the store has
        _run(history, run_recovery, full=True)
        _run(history, run_replication, may_fail=bool(history.damaged))
    assert not history.damaged, f"7: {list(history.damaged)} were not repaired"
    for key, partition in history.state().partitions.items():
        value = partition.replication
        assert value.leader is not None, f"7: {key}: {value}"
        assert value.isr == value.replicas, f"7: {key}: {value}"
        assert min(value.log_ends) == value.next_offset == value.high_watermark, f"7: {key}: {value}"


def _tidy(history: History) -> None:
    """All is rolled and compacted, and what retired is deleted."""
    for _ in range(3):
        _run(history, run_roll, everything=True)
        if history.shape.compacts:
            _run(history, run_compaction, everything=True, shuffle=DictShuffle())
        history.clock.pause(LONG_MS)
    for model in history.models:
        _check_tombstones(history, model.number)
    _run(history, run_retention)
    history.clock.pause(LONG_MS)
    _run(history, run_retention)


def _check_tombstones(history: History, number: int) -> None:
    """After their delay they are gone, but for one that stands for an empty log."""
    seen = history.seen(number)
    if not history.shape.compacts or seen.cleaner is None or seen.cleaner.keeps_superseded:
        return
    is_cut = any(slice_.start < seen.whole.start for slice_ in seen.slices)
    tombstones = [at for at, row in seen.rows.items() if row.value is None and at < seen.cleaner.position]
    gaps = len(seen.replication.epochs)  # in front of each gap a record may have to stay
    assert is_cut or len(tombstones) <= gaps, f"9: tombstones at {tombstones} of {len(seen.rows)} records stay"


def _trim_chain(history: History) -> int:
    """FLOOR passes everything so far, and the chain is trimmed. Returns that FLOOR."""
    history.clock.pause(FLOOR_DELAY_MS + LONG_MS)
    _run(history, run_vacuum)
    floor = history.state().floor
    for _ in range(3):
        _run(history, run_retention)  # an entry for the next snapshot to cover
        history.cluster.connection.committer.snapshots.write()
    _run(history, run_vacuum)
    return floor


def _check_stores(history: History) -> None:
    state, opened = history.state(), history.stores()
    assert not list(state.retired), f"7: retired for ever: {list(state.retired)}"
    names = {data_key(each.object, TOPIC) for each in state.objects}
    wanted = names | {index_key(name) for name in names}
    for store in sorted(state.stores):
        there = {each.key for prefix in (APPENDS, TOPICS) for each in opened.get(StoreId(store)).list_keys(prefix)}
        assert there == wanted, f"7: on {store} are too many {there - wanted}, too few {wanted - there}"
    assert not history.processes.unfinished_uploads(), "7: uploads are left that nobody publishes"
    report = run_verify(history.url, clock=history.clock, console=SILENT)
    assert (report.exit_code, report.differences) == (0, ()), f"7: {report.differences}"


def _check_chain(history: History, floor: int) -> None:
    state, store = history.state(), history.cluster.connection.follower.store
    first = entries(store)[0]
    assert first >= BLOCK * (entry_block(state.floor) - 1), (
        f"7: entries from {first} on are left, FLOOR is {state.floor}"
    )
    assert len(list(store.list_keys(SNAPSHOTS))) == 3
    assert not list(store.list_keys(COMMANDS))
    assert list(store.list_keys(CHUNKS)), "the snapshots that stay have chunks"
    with sparklog.connect(history.url) as opened:
        assert contents(opened.connection.follower.state) == contents(state), (
            "7: who opens the chain reads another state"
        )
