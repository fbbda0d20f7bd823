"""The pages of benchmarks say no more than was measured, and the README says what they say."""

from __future__ import annotations

import pytest

from bench import report
from bench.paired import Comparison, Spread
from tests import readme_figures


def compared(what: str, ours_s: float, peer_s: float, goal: str = "", peer: str = "parquet") -> Comparison:
    return Comparison(
        what,
        peer,
        goal,
        Spread.of([ours_s]),
        Spread.of([peer_s]),
        Spread.of_ratios([ours_s], [peer_s]),
        Spread.of([(ours_s - peer_s) * 1000]),
    )


def test_there_is_no_ratio_to_a_peer_that_is_too_quick_to_be_measured() -> None:
    text = report.page("a machine", [compared("open", 0.05, 0.0004), compared("read", 0.05, 0.001)], [], "")
    assert "| open | parquet |  | 0.050 / 0.050 / 0.050 | 0.000 / 0.000 / 0.000 | - | 50 / 50 / 50 |" in text
    assert [each.ratio for each in report.lines_of(text)] == [None, 0.02]


def test_a_page_that_is_measured_anew_keeps_its_section_of_clients() -> None:
    section = report.clients_section("a machine", ["| what | sparklog |", "|---|---|", "| GET | 1.00 / 1.00 / 1.00 |"])
    text = report.page("a machine", [compared("open", 0.05, 0.05)], [], "s3") + section
    assert report.sections_of(text) == section
    assert len(report.lines_of(text)) == 1  # a client is no peer of the README's
    assert report.sections_of(report.page("a machine", [], [], "s3")) == ""


def test_a_section_takes_the_place_of_the_one_of_its_heading() -> None:
    page, other = "# Page\n\n| a table |\n", "\n## Others\n\n### Of them\n\ntext\n"
    first, second = (f"{report.PEERS}\n{text}\n" for text in ("first", "second"))
    assert report.with_section(page, first) == page + first
    assert report.with_section(page + first + other, second) == page + second + other
    assert report.with_section(page + other + first, second) == page + other + second


@pytest.mark.parametrize("store", ["", "s3", "hdfs"])
def test_no_page_has_a_ratio_to_a_peer_of_no_time(store: str) -> None:
    lines = report.lines_of(report.path_of(store).read_text(encoding="utf-8"))
    assert len(lines) >= 7
    assert all((each.ratio is None) == (each.peer_s < 0.001) for each in lines)


@pytest.mark.parametrize(
    ("goal", "ours_s", "peer_s", "missed"),
    [
        ("", 2.0, 1.0, False),
        (">= 0.9", 1.0, 0.9, False),
        (">= 0.9", 1.0, 0.89, True),
        ("<= peer + 40 ms", 1.03, 1.0, False),
        ("<= peer + 40 ms", 1.05, 1.0, True),
    ],
)
def test_a_goal_that_was_missed_is_marked(goal: str, ours_s: float, peer_s: float, missed: bool) -> None:
    (line,) = report.lines_of(report.page("a machine", [compared("read", ours_s, peer_s, goal)], [], ""))
    assert (line.goal, line.missed) == (f"{goal}, missed" if missed else goal, missed)


def test_a_goal_that_nobody_can_check_is_refused() -> None:
    with pytest.raises(ValueError, match="found 'fast'"):
        report.page("a machine", [compared("read", 1, 1, "fast")], [], "")


def test_the_readme_has_the_medians_beside_kafka_and_delta_lake() -> None:
    measured = [
        compared(what, number + 1, peer_s, peer=peer)
        for number, (_, what, kafka, delta) in enumerate(readme_figures.ROWS)
        for peer, peer_s in ((kafka, 20), (delta, 30))
        if peer
    ]
    table = readme_figures.speed(report.page("a machine", measured, [], "")).splitlines()
    assert table[2].endswith("| 1.00 | 20.00 | 30.00 |")
    assert [row.split(" | ")[-2:] for row in table[3:5]] == [["20.00", "- |"], ["-", "30.00 |"]]
    assert len(table) == len(readme_figures.ROWS) + 2


def test_a_readme_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="found no such pair"):
        readme_figures.with_figures("# sparklog\n")
