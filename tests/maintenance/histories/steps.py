"""The steps of a history: what writers, jobs, readers, stores and people do."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from sparklog.client.stores.add_store import add_store
from sparklog.core.errors import Landed
from sparklog.core.placement.held_slices import holders_of, named_object
from sparklog.core.replication.partition import Replication
from sparklog.core.types import OffsetRange
from sparklog.maintenance.job_report import JobReport, WorkOutcome
from sparklog.maintenance.replication_job import run_replication
from sparklog.maintenance.rewrite.compaction_job import run_compaction
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.storage.keys import data_key, index_key
from tests.kit.silent_console import SILENT
from tests.maintenance.damaged_log import WAYS, rewrite_file
from tests.maintenance.histories.late_reads import begin_read
from tests.maintenance.histories.partition_model import Write
from tests.maintenance.histories.shape import TOPIC
from tests.maintenance.histories.writes import table_of
from tests.maintenance.keyed_log import DictShuffle

if TYPE_CHECKING:
    from tests.maintenance.histories.history import History

FINE: Final = {WorkOutcome.DONE, WorkOutcome.POSTPONED}
WAITS_MS: Final = (300, 1_000, 3_000, 12_000)


# ---- writers ----------------------------------------------------------------------------------------


def append(history: History, dice: random.Random) -> None:
    """Write to one partition or several; on several stores maybe to the leader only."""
    state, min_isr = history.state(), history.shape.min_isr
    values = {model.number: state.partitions[history.key(model.number)].replication for model in history.models}
    open_ = [each for each, value in values.items() if _takes_writes(value, min_isr)]
    if not open_:
        return
    name = f"w{len(history.writes)}"
    numbers = sorted(dice.sample(open_, dice.randint(1, len(open_))))
    is_lossy = history.shape.is_replicated and len(numbers) == 1 and dice.random() < 0.25
    parts = {each: history.shape.rows(dice, name, history.clock.at_ms) for each in numbers}
    write = history.writes[name] = Write(parts, is_lossy)
    history.note(f"  {name}: {parts}{', acks=1' if is_lossy else ''}")
    how: dict[str, Any] = {"acks": 1, "replication": "pull"} if is_lossy else {}
    old = dice.choice([None, *history.writers])

    def act(url: str) -> Any:
        if old is not None:
            return old.append(TOPIC, table_of(parts), timeout_ms=5_000, **how)
        with history.connect(url) as cluster:
            return cluster.append(TOPIC, table_of(parts), timeout_ms=5_000, **how)

    ran = history.in_process(dice, act)
    if ran.error is not None:
        write.is_refused = ran.error.landed is Landed.NO
    elif ran.value is not None:
        write.starts = {each.partition: each.start for each in ran.value.ranges}


def _takes_writes(value: Replication, min_isr: int) -> bool:
    """Whether enough replicas in sync have everything: those that lack records of acks=1 can't take more."""
    level = [store for store in value.isr if value.log_end(store) == value.next_offset]
    return value.leader is not None and len(level) >= min_isr


def delete(history: History, dice: random.Random) -> None:
    """Delete the records below some offset."""
    model = dice.choice(history.models)
    partition = history.state().partitions[history.key(model.number)]
    to = dice.randint(partition.log_start, partition.high_watermark)
    model.requested_starts.add(to)
    history.note(f"  of {TOPIC}-{model.number} below {to}")

    def act(url: str) -> dict[int, int]:
        with history.connect(url) as cluster:
            return cluster.delete_records(TOPIC, {model.number: to})

    if history.in_process(dice, act).value is not None:
        found = history.state().partitions[history.key(model.number)].log_start
        assert found >= to, f"2: records below {to} of {TOPIC}-{model.number} were deleted, the log starts at {found}"


# ---- jobs -------------------------------------------------------------------------------------------


def job(history: History, dice: random.Random, run: Callable[..., JobReport], **options: Any) -> JobReport | None:
    """Run a job. Returns its report if nothing came in between."""
    ran = history.in_process(dice, lambda url: run(url, clock=history.clock, console=SILENT, **options))
    report = ran.value
    if report is None:
        return None
    history.note(
        f"  ends with {report.exit_code}: " + ", ".join(f"{row.place} {row.outcome}" for row in report.partitions)
    )
    if not ran.alone or (report.job == "replication" and history.damaged):
        return None  # a copy does not replace what is damaged: recovery does
    assert report.exit_code == 0, f"8: {report.to_json()}"
    assert {row.outcome for row in report.partitions} <= FINE, f"8: {report.to_json()}"
    return report


def recover(history: History, dice: random.Random) -> None:
    """Read what was not read, or everything, and repair it."""
    job(history, dice, run_recovery, full=dice.random() < 0.5)
    history.forget_repaired()


def snapshot(history: History, dice: random.Random) -> None:
    """Write a snapshot of the chain."""

    def act(url: str) -> int:
        with history.connect(url) as cluster:
            return cluster.connection.committer.snapshots.write()

    history.in_process(dice, act)


# ---- readers ----------------------------------------------------------------------------------------


def plan(history: History, dice: random.Random) -> None:
    """Plan a read, and begin it or not."""
    history.reads.append(begin_read(history, dice))


def read(history: History, dice: random.Random) -> None:
    """Read to its end what was planned earlier."""
    if history.reads:
        history.reads.pop(dice.randrange(len(history.reads))).finish(history)


# ---- stores -----------------------------------------------------------------------------------------


def fence(history: History, dice: random.Random) -> None:
    """Take a store away, if a leader is left; where elections may be unclean, also one that lacks records."""
    state = history.state()
    live = [store.store for store in state.stores.values() if not store.fenced]
    store = dice.choice(live)
    rest = [each for each in live if each != store]
    values = [each.replication for each in state.partitions.values()]
    loses = not all(any(each in value.whole for each in rest) for value in values)
    if history.damaged or not rest or (loses and not history.shape.unclean):
        return  # the last whole copy of an object might be there
    history.note(f"  {store}{', and records are lost' if loses else ''}")
    history.cluster.fence_store(store)


def register(history: History, dice: random.Random) -> None:
    """A store is back."""
    fenced = [store for store in history.state().stores.values() if store.fenced]
    if fenced:
        store = dice.choice(fenced)
        history.note(f"  {store.store}")
        add_store(history.cluster.connection, store.store, store.url)


def damage(history: History, dice: random.Random) -> None:
    """Damage a copy of an object, or of its index, of which another replica in sync has a whole one."""
    state = history.state()
    chances = []
    for key, partition in state.partitions.items():
        for slice_ in state.slices.find(key, OffsetRange(partition.log_start, partition.high_watermark)):
            name = data_key(named_object(state, slice_).object, TOPIC)
            holders = set(holders_of(state, slice_)).intersection(partition.replication.isr)
            sound = [
                each for each in sorted(holders) if not {(each, name), (each, index_key(name))} & history.damaged.keys()
            ]
            chances += [(store, name) for store in sound] if len(sound) > 1 else []
    if not chances:
        return
    store, name = dice.choice(chances)
    name = index_key(name) if dice.random() < 0.3 else name
    way = dice.choice(sorted(WAYS))
    history.note(f"  {name} on {store}: {way}")
    opened = history.stores().get(store)
    history.damaged[store, name] = bytes(opened.get(name))
    rewrite_file(opened, name, WAYS[way])


STEPS: Final[Mapping[str, Callable[[History, random.Random], object]]] = {
    "append": append,
    "delete": delete,
    "roll": lambda history, dice: job(history, dice, run_roll, everything=dice.random() < 0.85),
    "compact": lambda history, dice: job(
        history, dice, run_compaction, shuffle=DictShuffle(), everything=dice.random() < 0.8
    ),
    "retain": lambda history, dice: job(history, dice, run_retention),
    "vacuum": lambda history, dice: job(history, dice, run_vacuum),
    "replicate": lambda history, dice: job(history, dice, run_replication),
    "recover": recover,
    "snapshot": snapshot,
    "wait": lambda history, dice: history.clock.pause(dice.choice(WAITS_MS)),
    "plan": plan,
    "read": read,
    "fence": fence,
    "register": register,
    "damage": damage,
}
