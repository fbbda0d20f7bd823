"""The failures: how each is made, what shows it, and what mends it. docs/failures.md has the same in words."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sparklog.host.dice import new_token
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.maintenance.verify.verify_job import run_verify
from tests.chaos.chaos_cluster import ChaosCluster
from tests.kit.silent_console import SILENT
from tests.servers.tcp_proxy import Mode

AHEAD_S = 30
_ENTRY_POINT = "from sparklog.cli.main import entry_point; entry_point()"
_SILENT = SILENT
_ENTRIES = "meta/chain/meta/log"

Step = Callable[[ChaosCluster], object]


@dataclass(frozen=True)
class Failure:
    """One failure.

    `health` is a part of what `cluster health` says, and `code` its exit code. `page` is a part of what the overview of
    a coordinator says, `metric` a line of its /metrics; "": nothing special. `mend`: what to do, as docs say it.
    """

    what: str
    breaks: Step
    mends: Step
    health: str
    code: int
    mend: str
    page: str = ""
    metric: str = ""
    needs_disks: bool = False
    no_coordinator: bool = False  # so the page does not answer


# ---- how they are made ------------------------------------------------------------------------------


def kill(kind: str) -> Step:
    def step(chaos: ChaosCluster) -> None:
        for running in chaos.named(kind):
            running.kill()

    return step


def start_all(chaos: ChaosCluster) -> None:
    chaos.start_all()


def pause_coordinators(chaos: ChaosCluster) -> None:
    for running in chaos.named("coordinator"):
        running.pause()


def kill_leader(chaos: ChaosCluster) -> None:
    chaos.leader().kill()


def stop_agents(chaos: ChaosCluster) -> None:
    for store in "abc":
        chaos.stop(f"agent-{store}")


def fill(disk: str) -> Step:
    def step(chaos: ChaosCluster) -> None:
        with (chaos.folder / disk / "filler").open("wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(1 << 16))
            except OSError:
                return

    return step


def remove_filler(disk: str) -> Step:
    return lambda chaos: (chaos.folder / disk / "filler").unlink()


def remount(disk: str, how: str) -> Step:
    return lambda chaos: subprocess.run(["mount", "-o", f"remount,{how}", str(chaos.folder / disk)], check=True)


def move_disk(disk: str, to: str) -> Step:
    def step(chaos: ChaosCluster) -> None:
        (chaos.folder / to).mkdir(exist_ok=True)
        subprocess.run(["mount", "--move", str(chaos.folder / disk), str(chaos.folder / to)], check=True)

    return step


def wipe_b(chaos: ChaosCluster) -> None:
    for path in (chaos.folder / "b").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def restart_agent_b(chaos: ChaosCluster) -> None:
    chaos.stop("agent-b")
    chaos.start_all()


def s3(mode: Mode) -> Step:
    def step(chaos: ChaosCluster) -> None:
        chaos.s3.mode = mode

    return step


def lead_with_a_clock_ahead(chaos: ChaosCluster) -> None:
    """Exchange the coordinators for one whose clock is 30 s ahead."""
    kill("coordinator")(chaos)
    first = chaos.processes["coordinator-1"]
    program = f"import time; ns = time.time_ns; time.time_ns = lambda: ns() + {AHEAD_S * 10**9}; {_ENTRY_POINT}"
    chaos.processes["coordinator-1"] = replace(first, command=[first.command[0], "-c", program, *first.command[3:]])
    chaos.processes["coordinator-1"].start()
    chaos.kept = first
    while chaos.leader() is not chaos.processes["coordinator-1"]:
        time.sleep(0.1)
    assert chaos.write("from the future").code == 0


def lead_with_the_right_clock(chaos: ChaosCluster) -> None:
    chaos.processes["coordinator-1"].kill()
    chaos.processes["coordinator-1"] = chaos.kept
    chaos.start_all()


def expire_certificate(chaos: ChaosCluster) -> None:
    chaos.write_certificate(days=-1)


def renew_certificate(chaos: ChaosCluster) -> None:
    chaos.write_certificate(days=1)


def revoke_token(chaos: ChaosCluster) -> None:
    chaos.write_access(new_token())


def give_token_back(chaos: ChaosCluster) -> None:
    chaos.write_access(chaos.token)


def flip(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


def newest(chaos: ChaosCluster, folder: str, ending: str = "") -> Path:
    """The newest file below a folder of the cluster."""
    return max((path for path in (chaos.folder / folder).rglob(f"*{ending}") if path.is_file()), key=_written)


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns


def damage(folder: str, ending: str = "", how: Callable[[Path], object] = flip) -> Step:
    def step(chaos: ChaosCluster) -> None:
        path = newest(chaos, folder, ending)
        chaos.kept = (path, path.read_bytes())
        how(path)

    return step


def put_back(chaos: ChaosCluster) -> None:
    path, body = chaos.kept
    path.write_bytes(body)


def verify(chaos: ChaosCluster) -> None:
    run_verify(chaos.url, console=_SILENT)


def recover(chaos: ChaosCluster) -> None:
    assert run_recovery(chaos.url, full=True, console=_SILENT).exit_code == 0


def both(*steps: Step) -> Step:
    def step(chaos: ChaosCluster) -> None:
        for each in steps:
            each(chaos)

    return step


def move_away(chaos: ChaosCluster) -> None:
    chaos.kept[0].unlink()


def snapshot(chaos: ChaosCluster) -> None:
    assert chaos.write("before a snapshot").code == 0
    assert chaos.run("chain", "snapshot").code == 0


def copy_the_entry(chaos: ChaosCluster) -> None:
    """Put an entry in the place of its copy."""
    path, _ = chaos.kept
    path.write_bytes((chaos.folder / _ENTRIES / path.parent.name / path.name).read_bytes())


def damage_a_copy(chaos: ChaosCluster) -> None:
    """Of the newest entry that has one on a disk."""
    found = [path for store in "ab" for path in (chaos.folder / store).glob("copies/*/log/*/*")]
    path = max(found, key=_written)
    chaos.kept = (path, path.read_bytes())
    flip(path)


def copy_from_another_store(chaos: ChaosCluster) -> None:
    """Put the copy of an entry in the place of the entry."""
    path, body = chaos.kept
    found = [copy for store in "ab" for copy in (chaos.folder / store).glob(f"copies/*/log/*/{path.name}")]
    path.write_bytes(found[0].read_bytes() if found else body)  # else c, on S3, has it


_START_ONE = "sparklog coordinator, or if none will come back: sparklog coordinator resign --force"
_MAKE_ROOM = "make room or give it more, docs/maintenance.md, A full disk"

FAILURES = (
    Failure(
        "the coordinator that leads is killed, another one stands by",
        kill_leader,
        start_all,
        "",
        0,
        "start it again when you have time",
        metric="sparklog_active_controller 1.0",
    ),
    Failure(
        "all coordinators are killed",
        kill("coordinator"),
        start_all,
        "writes from here fail: … no coordinator answers at … Connection refused",
        5,
        _START_ONE,
        no_coordinator=True,
    ),
    Failure(
        "all coordinators hang",
        pause_coordinators,
        start_all,
        "writes from here fail: … did not answer",
        5,
        "kill them, then as above",
        no_coordinator=True,
    ),
    Failure(
        "an agent is killed",
        kill("agent-b"),
        start_all,
        "store b is silent (its agent is down)",
        0,
        "sparklog agent --store b",
        "store b is silent (its agent is down)",
        'sparklog_stores{state="dead"} 1.0',
    ),
    Failure(
        "all agents are stopped",
        stop_agents,
        start_all,
        "no agent runs, so a replica that lacks records stays behind",
        0,
        "sparklog agent --store a, and so on",
        "no agent runs, so a replica that lacks records stays behind",
        'sparklog_stores{state="stopped"} 3.0',
    ),
    Failure(
        "the disk of a store is full",
        fill("b"),
        remove_filler("b"),
        "store b: STORE_FULL",
        5,
        "give it more room, or move its replicas off and remove it; delete nothing: docs/maintenance.md, A full disk",
        "store b: only 0 B are free",
        'sparklog_store_free_bytes{store="b"} 0.0',
        needs_disks=True,
    ),
    Failure(
        "the disk of a store is read-only",
        remount("b", "ro"),
        remount("b", "rw"),
        "store b: STORE_READ_ONLY",
        5,
        "mount it to be written; its agent continues by itself",
        needs_disks=True,
    ),
    Failure(
        "the disk of a store is not mounted, or lost",
        move_disk("b", "kept"),
        move_disk("kept", "b"),
        "store b: nothing there: no INCARNATION",
        5,
        "mount it; lost for good: sparklog store fence b, sparklog replica move --off b",
        "store b: nothing there: no INCARNATION",
        'sparklog_store_up{store="b"} 0.0',
        needs_disks=True,
    ),
    Failure(
        "a store was wiped",
        wipe_b,
        restart_agent_b,
        "store b: nothing there: no INCARNATION",
        5,
        "restart its agent: it reports the loss, and copies everything",
        "store b: nothing there: no INCARNATION",
        'sparklog_store_up{store="b"} 0.0',
    ),
    Failure(
        "a store does not answer",
        s3(Mode.SILENT),
        s3(Mode.OPEN),
        "store c: KAFKA_STORAGE_ERROR: … no answer in time",
        5,
        "bring it back",
        "store c: no answer in",
        'sparklog_store_up{store="c"} 0.0',
    ),
    Failure(
        "a store cuts each connection",
        s3(Mode.CUT),
        s3(Mode.OPEN),
        "store c: KAFKA_STORAGE_ERROR",
        5,
        "bring it back",
        "store c: KAFKA_STORAGE_ERROR",
        'sparklog_store_up{store="c"} 0.0',
    ),
    Failure(
        "the disk of the metadata is full",
        fill("meta"),
        both(remove_filler("meta"), lambda chaos: chaos.write("taken")),
        "store metadata: STORE_FULL",
        5,
        _MAKE_ROOM,
        "store metadata: only 0 B are free",
        'sparklog_store_free_bytes{store="metadata"} 0.0',
        needs_disks=True,
    ),
    Failure(
        "the disk of the metadata is read-only",
        both(remount("meta", "ro"), lambda chaos: chaos.write("refused")),
        both(remount("meta", "rw"), lambda chaos: chaos.write("taken")),
        "store metadata: STORE_READ_ONLY",
        5,
        "mount it to be written",
        "the newest write failed: STORE_READ_ONLY",
        'sparklog_refused_requests_total{code="STORE_READ_ONLY"}',
        needs_disks=True,
    ),
    Failure(
        "the disk of the metadata is not mounted, or lost",
        move_disk("meta", "kept"),
        move_disk("kept", "meta"),
        "CLUSTER_NOT_FOUND: … if there was one, check that its disk is mounted",
        3,
        "mount it; lost for good: docs/replication.md, When the metadata is lost",
        "store metadata: KAFKA_STORAGE_ERROR: … mount its disk if it is not mounted",
        'sparklog_store_up{store="metadata"} 0.0',
        needs_disks=True,
    ),
    Failure(
        "a clock is ahead",
        lead_with_a_clock_ahead,
        lead_with_the_right_clock,
        "ahead of this machine's clock",
        0,
        "set the clock; the remark goes once the others have come so far",
    ),
    Failure(
        "the certificate of the coordinators has expired",
        expire_certificate,
        renew_certificate,
        "writes from here fail: … certificate has expired; renew it there, which needs no restart",
        5,
        "put a new one in its place",
    ),
    Failure(
        "a token was revoked",
        revoke_token,
        give_token_back,
        "writes from here fail: … the token is not one of this coordinator's",
        5,
        "set SPARKLOG_TOKEN to a new one",
        no_coordinator=True,  # for the one with this token
    ),
    Failure(
        "an object is damaged on a store",
        both(damage("b/append", ".arrow"), verify),
        both(recover, verify),
        "job verify: 1 failed",
        5,
        "sparklog job recovery --full, then sparklog job verify",
        "job verify: 1 failed",
        'sparklog_job_last_run_failed_partitions{name="verify"} 1.0',
    ),
    Failure(
        "an object is lost on a store",
        damage("b/append", ".arrow", Path.unlink),
        recover,
        "store b: orders-0 offsets ….arrow is not there",
        5,
        "sparklog job recovery --full",
    ),
    Failure(
        "an index is damaged on a store",
        both(damage("b/append", ".index"), verify),
        both(recover, verify),
        "job verify: 1 failed",
        5,
        "sparklog job recovery --full, then sparklog job verify",
        "job verify: 1 failed",
        'sparklog_job_last_run_failed_partitions{name="verify"} 1.0',
    ),
    Failure(
        "an index is lost on a store",
        damage("b/append", ".index", Path.unlink),
        recover,
        "store b: orders-0 offsets ….index is not there",
        0,
        "sparklog job recovery --full",
    ),
    Failure(
        "an entry of the chain is damaged",
        damage(_ENTRIES),
        copy_from_another_store,
        "the metadata can't be read: CHAIN_DAMAGED: entry …",
        5,
        "put the file back from copies/…/log on another store, or from a backup; nothing need be stopped",
    ),
    Failure(
        "a snapshot of the chain is damaged",
        both(snapshot, damage("meta/chain/meta/snapshot")),
        both(move_away, snapshot),
        "the metadata can't be read: CHAIN_DAMAGED: the snapshot of entry …",
        5,
        "move the file away, then sparklog chain snapshot",
    ),
    Failure(
        "a copy of the chain is damaged",
        both(damage_a_copy, verify),
        both(copy_the_entry, verify),
        "job verify: 1 failed",
        5,
        "copy the entry there from meta/log of the chain, then sparklog job verify",
        "job verify: 1 failed",
        'sparklog_job_last_run_failed_partitions{name="verify"} 1.0',
    ),
)
