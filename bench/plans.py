"""What it takes to plan a job over a million segments on three stores: time, and memory beside the state itself.

python -m bench.plans               prints a line per job
python -m bench.plans JOB FOLDER    the line of one job, for a cluster that is there

Each job plans in a process of its own, so that the memory is its own. Nothing is stored but the chain: plans open no
object. `vacuum` has nothing to list either.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.state_scale import SEGMENT_BYTES, THREE, large_state
from sparklog.chain.entry import Entry, encode_entry, hash_of
from sparklog.chain.snapshot import snapshot
from sparklog.core.coordination import Author
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, ObjectKind
from sparklog.maintenance.job_frame import Job, JobFrame
from sparklog.maintenance.rewrite.compaction_job import CompactionJob
from sparklog.maintenance.rewrite.roll_job import RollJob
from sparklog.maintenance.space.retention_job import RetentionJob
from sparklog.maintenance.space.vacuum_job import VacuumJob
from sparklog.maintenance.verify.recovery_job import RecoveryJob
from sparklog.maintenance.verify.verify_job import VerifyJob
from sparklog.storage.keys import entry_key
from sparklog.storage.local.store import LocalStore

SEGMENTS: Final = 1_000_000
MOST_S, MOST_MIB = 10, 256


class _NoShuffle:
    def run(self, reads: object, rewrites: object) -> list[bytes]:
        raise AssertionError("a plan shuffles nothing")


JOBS: Final[Mapping[str, Callable[[], Job]]] = {
    "roll": lambda: RollJob(everything=True),
    "retention": RetentionJob,
    "compaction": lambda: CompactionJob(_NoShuffle(), everything=True),
    "recovery": lambda: RecoveryJob((), full=True, accept_loss=False),
    "verify": lambda: VerifyJob((), 1),
    "vacuum": VacuumJob,
}


def plans(segments: int = SEGMENTS) -> list[tuple[str, str]]:
    """Rows for the report: (what was measured, its figure)."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="sparklog-plans-") as name:
        folders = {kind: Path(name) / kind.name.lower() for kind in ObjectKind}
        # Full segments, so that compaction rewrites each by itself; for the roll, a thousand objects for each segment.
        compact = {"cleanup.policy": "compact,delete", "segment.bytes": str(SEGMENT_BYTES)}
        for kind, config in ((ObjectKind.SEGMENT, compact), (ObjectKind.APPEND, {})):
            write_cluster(folders[kind], large_state(segments, THREE, kind=kind, config=config))
        for job in JOBS:
            folder = folders[ObjectKind.APPEND if job == "roll" else ObjectKind.SEGMENT]
            run = [sys.executable, "-m", "bench.plans", job, str(folder)]
            figure = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
            what = f"{job}: the plan over {segments:,} segments on three stores"
            print(f"{what}: {figure}", flush=True)
            rows.append((what, figure))
    return rows


def write_cluster(folder: Path, state: ClusterState) -> None:
    """A cluster whose chain is one snapshot of this state, and its newest entry, without commands."""
    store = LocalStore(str(folder))
    newest = Entry(state.chain_id, EntryNumber(state.n), Author("client", "bench"), "", "0" * 64, state.time_ms, ())
    body = encode_entry(newest)
    store.put_if_absent(entry_key(state.n), body)
    snapshot.write(store, snapshot.prepare(state, hash_of(body), {}))


def planned(job: str, folder: str) -> str:
    """Plan a job in this process, whose memory counts."""
    frame = JobFrame(job, folder, dry_run=True)
    _touch(frame.connection.follower.state)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins here: see proc(5)
    before = _peak_mib()
    begin = time.process_time()
    rows = JOBS[job]().plan(frame)
    took = time.process_time() - begin
    return (
        f"{took:.2f} s of processor time (goal < {MOST_S}), {_peak_mib() - before:.0f} MiB at most (goal < {MOST_MIB}) "
        f"beside the {before:.0f} MiB of the process; {len(rows):,} rows"
    )


def _touch(state: ClusterState) -> None:
    """Read the whole state, which is mapped from files: its pages are no memory of a plan."""
    for block in (*state.slices.blocks, *state.objects.blocks):
        for column in block.columns.values():
            column.sum()


def _peak_mib() -> float:
    """The most resident memory since the process began, or since clear_refs was written."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def main() -> None:
    if sys.argv[1:]:
        print(planned(*sys.argv[1:]))
    else:
        plans()


if __name__ == "__main__":
    main()
