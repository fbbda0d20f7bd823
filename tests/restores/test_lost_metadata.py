"""Clusters of real processes lose their metadata and are restored: nothing acknowledged is lost, on all kinds of store.

pytest -s tests/restores/test_lost_metadata.py --campaign                            # 200 rounds
pytest -s tests/restores/test_lost_metadata.py --seeds 17-19                         # 17 and 18 again
"""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.budget import Seeds, random_runs
from tests.restores.forks import Forks
from tests.restores.lost_round import Round
from tests.restores.round_places import RoundPlaces
from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server

# The metadata is lost in each way, and again; with copies and without. A writer and restorers are killed.
FEW = (0, 1, 3)
MANY = range(200)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks({}) as forks:
        yield forks


# M: F-08 (kills)
@pytest.mark.timeout(0)
@random_runs(FEW, new_s=None, campaign=[MANY])
def test_nothing_acknowledged_is_lost_on_disks(seeds: Seeds, forks: Forks, tmp_path: Path) -> None:
    _rounds(seeds, forks, tmp_path, [])


@pytest.mark.campaign
@pytest.mark.timeout(0)
@random_runs(MANY, new_s=None)
def test_nothing_acknowledged_is_lost_on_a_disk_s3_and_hdfs(
    seeds: Seeds, s3proxy: S3Server, hadoop: Hadoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3proxy.variables.items():
        monkeypatch.setenv(name, value)
    with Forks(s3proxy.variables) as forks:
        _rounds(seeds, forks, tmp_path, [f"s3://{s3proxy.new_bucket()}", hadoop.url])


def _rounds(seeds: Seeds, forks: Forks, folder: Path, elsewhere: list[str]) -> None:
    """Run the rounds with these seeds. `elsewhere`: where stores may be beside the folder."""
    counts: Counter[str] = Counter()
    wrong: dict[int, list[str]] = {}
    for seed in seeds.runs.fixed:
        here = folder / str(seed)
        roots = [f"file://{here}", *(f"{root}/{uuid.uuid4().hex}" for root in elsewhere)]
        turn = seed % len(roots)
        round_ = Round(forks, RoundPlaces(here, roots[turn:] + roots[:turn]), seed)
        if found := round_.run():
            wrong[seed] = found
            print(f"seed {seed}:", *round_.history, *found, sep="\n  ", file=sys.stderr, flush=True)
        counts += round_.counts
    print(f"seeds {seeds.runs}: {dict(sorted(counts.items()))}", file=sys.stderr)
    assert wrong == {}
