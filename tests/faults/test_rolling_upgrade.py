"""Three coordinators are replaced one after the other under writers: nothing acknowledged is lost, doubled or moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.rolling_upgrade import (
    NEXT_VERSION,
    Acknowledged,
    Heard,
    Step,
    UpgradeWriters,
    complaints,
    differences,
    longest_pause_s,
    replaced_coordinators,
    report,
    upgrade_all,
)


# M: N-01
@pytest.mark.slow
def test_an_upgrade_loses_nothing(tmp_path: Path) -> None:
    """The standbys come first, the leader last, as docs/deploy.md says."""
    with replaced_coordinators(tmp_path) as three:
        writers = UpgradeWriters()
        with writers.running(three.addresses, processes=1, threads=4):
            writers.hear(5)
            upgrade_all(three, writers, leader_first=False)
        assert [step.led for step in three.steps] == [False, False, True]
        assert three.versions() == [NEXT_VERSION] * 3
        assert writers.errors == []
        assert complaints(writers.acknowledged, three.running.url) == []
        print(report(three.steps, writers.heard))


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_upgrades_in_any_order_lose_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with replaced_coordinators(tmp_path) as three:
        writers = UpgradeWriters()
        with writers.running(three.addresses, processes=3, threads=4):
            writers.hear(20)
            for number in range(6):
                upgrade_all(three, writers, leader_first=number % 2 == 1)
        with capsys.disabled():
            print(f"\n{report(three.steps, writers.heard)}")
        assert writers.errors == []
        assert complaints(writers.acknowledged, three.running.url) == []


RIGHT: Acknowledged = {0: {0: "0.0-0-0-0", 1: "0.1-0-0-0", 2: "0.0-1-0-0"}, 1: {0: "0.0-0-1-0"}}


@pytest.mark.parametrize(
    ("partition", "found", "said"),
    [
        (0, {0: "0.0-0-0-0", 1: "0.1-0-0-0"}, "offset 2 was acknowledged as 0.0-1-0-0, found None"),
        (1, {}, "offset 0 was acknowledged as 0.0-0-1-0, found None"),
        (1, {0: "0.1-0-1-0"}, "offset 0 was acknowledged as 0.0-0-1-0, found 0.1-0-1-0"),
        (1, {0: "0.0-0-1-0", 1: "0.0-0-1-0"}, "1 records are there twice"),
        (1, {0: "0.0-0-1-0", 1: "0.0-1-1-0"}, "0.0-1-1-0 was never acknowledged"),
    ],
)
def test_what_is_wrong_is_noticed(partition: int, found: dict[int, str], said: str) -> None:
    assert differences(RIGHT, RIGHT) == []
    assert any(said in line for line in differences(RIGHT, RIGHT | {partition: found}))


def test_an_order_that_is_not_the_writers_is_noticed() -> None:
    turned: Acknowledged = {0: {0: "0.0-1-0-0", 1: "0.0-0-0-0"}}
    assert differences(turned, turned) == ["0: the records of a writer are not in its order"]


def test_a_pause_counts_where_it_overlaps_the_step() -> None:
    assert longest_pause_s([1.0, 2.0, 5.0, 5.5], 2.5, 3.0) == 3.0
    assert longest_pause_s([1.0, 2.0, 5.0, 5.5], 5.1, 6.0) == 0.5
    assert longest_pause_s([1.0], 0.0, 9.0) == 0.0
    heard = [Heard("0.0", at_s) for at_s in (0.0, 1.0, 3.0)] + [Heard("0.1", at_s) for at_s in (0.5, 2.0, 2.5)]
    text = report([Step("http://a", True, 1.5, 1.75, 2.25)], heard)
    assert text.startswith("2 writers, 6 acknowledgements, coordinators replaced: 1\n")
    assert "| nothing yet | | | 2.00 s | 1.00 s |" in text
    assert "| the leader | 0.25 s | 0.75 s | 2.00 s | 1.00 s |" in text
