"""Which tests share a worker, and in which order: files that need the same costly server, so that it starts once a run.

A group is worked off by one worker, file by file as they stand here; a file of no group is a group of its own.
`make test` has four workers on two cores. The longest groups begin first, so none may wait and compute for more than
half of the run. The first run in a clone fetches HDFS beside the files at the head of its groups, which do without.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

GROUPS: Final = {
    "HDFS": (
        "tests/faults/test_compaction_sigkill.py",
        "tests/faults/test_verify_on_stores.py",
        "tests/faults/test_maintenance_sigkill.py",
        "tests/faults/test_sigkill_commit.py",
        "tests/faults/test_lost_server.py",
        "tests/conf/test_cluster_files.py",
        "tests/faults/test_hdfs_faults.py",
        "tests/contract/test_hdfs_store.py",
        "tests/servers/test_hdfs_proxy.py",
        "tests/storage/test_hdfs.py",
        "tests/storage/test_hdfs_faults.py",
        "tests/restores/test_lost_metadata.py",
        "tests/clusters/test_yarn.py",
    ),
    "another HDFS, and Spark on it": (
        "tests/cli/test_secrets.py",
        "tests/contract/test_copies.py",
        "tests/log/objects/test_object_copy.py",
        "tests/storage/test_s3_settings.py",
        "tests/faults/test_race_processes.py",
        "tests/examples/test_demo.py",
        "tests/soak/test_soak.py",
        "tests/spark/test_on_stores.py",  # these five on the same session
        "tests/spark/stream/test_stores.py",
        "tests/spark/test_failures.py",
        "tests/spark/kills/test_killed_executors.py",
        "tests/spark/stream/test_killed_executors.py",
        "tests/faults/test_killed_servers.py",
        "tests/storage/test_probe_servers.py",
        "tests/spark/columns/test_column_replicas.py",
        "tests/spark/columns/test_column_writes.py",
        "tests/spark/columns/test_write_faults.py",
        "tests/spark/columns/test_s3a.py",
    ),
    "Spark without the JAR, until it is added": (
        "tests/spark/",
        "tests/spark/test_memory.py",
        "tests/spark/columns/test_added_jar.py",
    ),
    "Spark with the JAR": ("tests/spark/columns/",),
    "programs with a Spark of their own, and Delta Lake": (
        "tests/spark/test_installation.py",
        "tests/spark/test_secrets.py",
        "tests/spark/materialize/test_delta_changes.py",
        "tests/spark/materialize/test_exactly_once.py",
        "tests/spark/materialize/test_flights.py",
        "tests/spark/materialize/test_rows.py",
        "tests/spark/materialize/test_killed_drivers.py",
        "tests/spark/materialize/test_beside_others.py",
        "tests/spark/materialize/test_killed_executors.py",
    ),
    "the simulations": ("tests/sim/test_sim.py", "tests/chain/test_simulation.py"),
}
_PLACES: Final = {
    member: (group, place)
    for place, (group, member) in enumerate((group, member) for group, members in GROUPS.items() for member in members)
}


# The files that ask whether this is a campaign, and do more then. Begin of their tests' paths.
LONGER_IN_CAMPAIGN: Final = (
    "tests/cli/test_secrets.py",
    "tests/contract/",
    "tests/coordinator/test_fuzz.py",
    "tests/faults/",
    "tests/maintenance/test_full_stores.py",
    "tests/maintenance/test_lost_everywhere.py",
    "tests/maintenance/test_lost_tasks.py",
    "tests/maintenance/verify/test_repair.py",
    "tests/restores/",
    "tests/spark/kills/",
)


def group_of(path: str) -> str:
    """The group of a test file, by its path from the project's root."""
    return _place_of(path)[0]


def turn_of(path: str, *, slow: bool) -> int:
    """Groups come first, then files with slow tests, so that at the end no worker is alone with one."""
    return _place_of(path)[1] - (slow and path not in _PLACES)


class RandomOrder:
    """An order by dice: of the groups, of the files of each group, and of the tests of each file.

    A group stays with one worker, but which one that is, and what ran there before, differs from seed to seed. Pytest
    has the last word within a file: it keeps together what uses the same value of a parametrized fixture.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        random.Random(self.seed).shuffle(items)

    def turn_of(self, path: str) -> tuple[float, float]:
        """The place of a file among all: first its group's, then its own in the group."""
        return self._dice(group_of(path)), self._dice(path)

    def _dice(self, name: str) -> float:
        return random.Random(f"{self.seed} {name}").random()


def _place_of(path: str) -> tuple[str, int]:
    member = max((member for member in _PLACES if path.startswith(member)), key=len, default=None)
    return (path, len(_PLACES) + 1) if member is None else _PLACES[member]


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
