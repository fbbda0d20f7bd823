"""A disk that is full: what is kept for commits lets records be deleted there, and only that does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparklog.storage.local.reserve import RESERVE_BYTES
from tests.cli.conftest import Cli
from tests.cli.test_bad_input import in_mounts

FILL = """
    mount -t tmpfs -o size=7m none "$1" || exit 1
    run "$1" cluster init
    run "$1" topic create orders -c file.delete.delay.ms=0
    seq 30000 | run "$1" produce orders
    cat /dev/zero > "$1/filler" 2> /dev/null
    run "$1" topic delete-records orders --all-to end --yes
"""
MEND = """
    run "$1" store free
    run "$1" store free
    run "$1" topic delete-records orders --all-to end --yes | tail -1
    run "$1" job retention | tail -1
    run "$1" cluster health | grep 'given back'
    run "$1" store reserve
    run "$1" cluster health | grep 'given back'
    echo new | run "$1" produce orders
    run "$1" consume orders
"""


@pytest.mark.usefixtures("can_mount")
def test_a_full_disk_takes_a_deletion_once_its_reserve_is_given_back(tmp_path: Path) -> None:
    filled, mended = said_before_and_after(FILL, MEND, tmp_path)
    assert "STORE_FULL: " in filled[-3]
    assert "give it more room; docs/maintenance.md, A full disk" in filled[-3]
    assert filled[-1] == "-> 1"
    assert mended[:4] == [
        f"freed 4.0 MiB at file://{tmp_path}/cluster",
        "-> 0",
        f"nothing to free at file://{tmp_path}/cluster",
        "-> 0",
    ]
    assert mended[4:6] == ["-> 0", "-> 0"]  # the deletion, and the job that removes the objects
    assert "sparklog store reserve keeps it again" in mended[6]
    assert mended[7:] == [
        f"4.0 MiB are reserved at file://{tmp_path}/cluster",
        "-> 0",
        "appended 1 record to orders in 1 commit",
        "-> 0",
        "new",
        "-> 0",
    ]


@pytest.mark.usefixtures("can_mount")
def test_without_a_reserve_a_full_disk_takes_no_deletion(tmp_path: Path) -> None:
    """So the test above shows what the reserve is good for."""
    taken = 'rm "$1/cluster/.reserve"; cat /dev/zero > "$1/more" 2> /dev/null'
    again = FILL.rstrip().rpartition("\n")[2]
    _, then = said_before_and_after(FILL + taken, f'run "$1" store free\n{again}', tmp_path)
    assert then[:2] == [f"nothing to free at file://{tmp_path}/cluster", "-> 0"]
    assert then[-1] == "-> 1"


def said_before_and_after(first: str, then: str, at: Path) -> tuple[list[str], list[str]]:
    before, _, after = in_mounts(f"{first}\necho ----\n{then}", str(at)).partition("----\n")
    return before.splitlines(), after.splitlines()


def test_the_reserve_is_allocated_hidden_and_made_once(nowhere: Cli) -> None:
    assert nowhere("cluster", "init").code == 0
    file = Path(nowhere.url, ".reserve")
    assert os.stat(file).st_size == RESERVE_BYTES
    assert os.stat(file).st_blocks * 512 >= RESERVE_BYTES
    assert nowhere("cluster", "health").code == 0
    assert nowhere("store", "reserve").code == 0
    assert os.stat(file).st_size == RESERVE_BYTES
    said = nowhere("--format", "json", "store", "free")
    assert f'"freed_bytes":{RESERVE_BYTES}' in said.out.replace(" ", "")
    assert os.stat(file).st_size == 0


def test_a_reserve_needs_a_disk_of_this_machine(nowhere: Cli) -> None:
    said = nowhere("store", "free")
    assert (said.code, said.out) == (3, "")
    assert said.err.startswith("CLUSTER_NOT_FOUND")
    assert not Path(nowhere.url).exists()
