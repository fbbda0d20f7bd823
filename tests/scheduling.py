"""Which tests share a worker, and in which order: files that need the same costly server, so that it starts once a run.

A group is worked off by one worker, file by file as they stand here; a file of no group is a group of its own.
`make test` has three workers on two cores, so no group may take more than a quarter of the processor time of the run.
What needs HDFS comes after what does not: the first run in a clone fetches it in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

GROUPS: Final = {
    "Spark, local[2] and then other masters": (
        "tests/spark/",
        "tests/spark/test_failures.py",
        "tests/spark/test_memory.py",
    ),
    "the simulation": ("tests/chain/test_simulation.py",),
    "programs with a Spark of their own": (
        "tests/spark/test_installation.py",
        "tests/spark/test_secrets.py",
        "tests/spark/materialize/test_delta_changes.py",
        "tests/spark/materialize/test_exactly_once.py",
        "tests/spark/materialize/test_flights.py",
        "tests/spark/materialize/test_rows.py",
        "tests/spark/materialize/test_sigkill.py",
    ),
    "HDFS": (
        "tests/faults/test_maintenance_sigkill.py",
        "tests/contract/test_hdfs_store.py",
        "tests/faults/test_hdfs_faults.py",
        "tests/faults/test_sigkill_commit.py",
        "tests/servers/test_hdfs_proxy.py",
        "tests/storage/test_hdfs.py",
        "tests/storage/test_hdfs_faults.py",
    ),
    "another HDFS, and Spark on it": (
        "tests/faults/test_race_processes.py",
        "tests/spark/test_on_stores.py",
        "tests/faults/test_killed_servers.py",
        "tests/faults/test_lost_server.py",
        "tests/soak/test_soak.py",
        "tests/storage/test_probe_servers.py",
    ),
}
_PLACES: Final = {
    member: (group, place)
    for place, (group, member) in enumerate((group, member) for group, members in GROUPS.items() for member in members)
}


def group_of(path: str) -> str:
    """The group of a test file, by its path from the project's root."""
    return _place_of(path)[0]


def turn_of(path: str, *, slow: bool) -> int:
    """Groups come first, then files with slow tests, so that at the end no worker is alone with one."""
    return _place_of(path)[1] - (slow and path not in _PLACES)


def _place_of(path: str) -> tuple[str, int]:
    found = _PLACES.get(path) or next((at for member, at in _PLACES.items() if path.startswith(member)), None)
    return found or (path, len(_PLACES) + 1)


def is_whole_run(nodeids: Iterable[str]) -> bool:
    """Whether tests of every group are among these."""
    return {group_of(nodeid.partition("::")[0]) for nodeid in nodeids} >= GROUPS.keys()


class ByServer(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out groups in the order in which their first file was collected."""

    def __init__(self, config: Any, log: Any = None) -> None:
        config.option.loadscopereorder = False  # xdist would begin with the groups of many tests: those are quick ones
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])
