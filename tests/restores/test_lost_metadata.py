"""Clusters of real processes lose their metadata and are restored: nothing acknowledged is lost, on all kinds of store.

pytest -s tests/restores/test_lost_metadata.py --campaign                            # 200 rounds
pytest -s tests/restores/test_lost_metadata.py --restore-seeds 17-18                 # these again
"""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.restores.forks import Forks
from tests.restores.lost_round import Round
from tests.restores.round_places import RoundPlaces
from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server

SEEDS = {False: range(4), True: range(200)}


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> range:
    given = request.config.getoption("--restore-seeds")
    if given is None:
        return SEEDS[bool(request.config.getoption("--campaign"))]
    first, _, last = given.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks({}) as forks:
        yield forks


# M: F-08 (kills)
@pytest.mark.timeout(0)
def test_nothing_acknowledged_is_lost_on_disks(seeds: range, forks: Forks, tmp_path: Path) -> None:
    _rounds(seeds, forks, tmp_path, [])


@pytest.mark.campaign
@pytest.mark.timeout(0)
def test_nothing_acknowledged_is_lost_on_a_disk_s3_and_hdfs(
    seeds: range, s3proxy: S3Server, hadoop: Hadoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3proxy.variables.items():
        monkeypatch.setenv(name, value)
    with Forks(s3proxy.variables) as forks:
        _rounds(seeds, forks, tmp_path, [f"s3://{s3proxy.new_bucket()}", hadoop.url])


def _rounds(seeds: range, forks: Forks, folder: Path, elsewhere: list[str]) -> None:
    """Run the rounds with these seeds. `elsewhere`: where stores may be beside the folder."""
    counts: Counter[str] = Counter()
    wrong: dict[int, list[str]] = {}
    for seed in seeds:
        here = folder / str(seed)
        roots = [f"file://{here}", *(f"{root}/{uuid.uuid4().hex}" for root in elsewhere)]
        turn = seed % len(roots)
        round_ = Round(forks, RoundPlaces(here, roots[turn:] + roots[:turn]), seed)
        if found := round_.run():
            wrong[seed] = found
            print(f"seed {seed}:", *round_.history, *found, sep="\n  ", file=sys.stderr, flush=True)
        counts += round_.counts
    print(f"seeds {seeds.start}-{seeds.stop - 1}: {dict(sorted(counts.items()))}", file=sys.stderr)
    assert wrong == {}
