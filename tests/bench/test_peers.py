"""Peers that a machine can't get are skipped by name, and the page's figures add up."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import peer_jars, report
from bench.peers import DELTA, KAFKA, PeerResults, Used, available, peers
from bench.peers_section import section
from tests.servers.made_once import CannotFetch

RECORDS = 1_000_000


def used(jvm_ns: float, python_ns: float = 0, broker_ns: float = 0, wall_s: float = 1) -> list[Used]:
    """Three rounds of 1,000,000 records, whose medians are the figures given."""
    return [Used(wall_s, *(each * RECORDS / 1e9 * by for each in (jvm_ns, python_ns, broker_ns))) for by in (1, 9, 0.1)]


def measured() -> PeerResults:
    results = PeerResults(RECORDS, 3)
    writes = {
        "rows only": used(100),
        "sparklog": used(310, 190),
        "sparklog, lz4": used(310, 150, 77),  # a broker that is busy for others
        "sparklog, not compressed": used(310, 140),
        KAFKA: used(1000, 1, 400, wall_s=2),
        f"{KAFKA}, tuned": used(900, 1, 300),
        f"{KAFKA}, tuned, lz4": used(950, 1, 200),
    }
    results.add(results.bulk_write, writes, [("sparklog", KAFKA, ""), ("sparklog", DELTA, "")])
    results.add(results.bulk_read, {"sparklog": used(300, 50)}, [])
    return results


def cells(text: str, begins: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {begins} |")]
    return line.strip("| ").split(" | ")[1:]


def refuse(*_: object) -> list[Path]:
    raise CannotFetch("wanted Java to start a server, found none in JAVA_HOME or PATH")


def test_peer_that_cannot_be_had_is_skipped_by_name_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peer_jars, "kafka_connector", refuse)
    monkeypatch.setattr(peer_jars, "delta", lambda: [Path("delta.jar")])
    skipped: dict[str, str] = {}
    assert available(skipped) == {DELTA: [Path("delta.jar")]}
    assert list(skipped) == [KAFKA]
    assert "Kafka is skipped: wanted Java" in capsys.readouterr().out


def test_without_any_peer_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_jars, "kafka_connector", refuse)
    monkeypatch.setattr(peer_jars, "delta", refuse)
    results = peers(lambda settings: pytest.fail("a session was made"), tmp_path)
    assert (results.comparisons, set(results.skipped)) == ([], {KAFKA, DELTA})
    assert not list(tmp_path.iterdir())


def test_jars_that_spark_has_in_any_version_are_left_out() -> None:
    there = [Path("lz4-java-1.11.0.jar"), Path("scala-library-2.13.18.jar"), Path("commons-pool-1.5.4.jar")]
    jars = [Path("lz4-java-1.10.2.jar"), Path("commons-pool2-2.13.1.jar"), Path("kafka-clients-3.9.2.jar")]
    assert peer_jars.beside(there, jars) == jars[1:]


def test_sides_are_compared_with_the_peers_that_are_there() -> None:
    (found,) = measured().comparisons
    assert (found.peer, found.ours_s.median, found.peer_s.median) == (KAFKA, 1, 2)


def test_comparisons_of_the_section_are_read_back_and_its_other_tables_are_not() -> None:
    text = section("a machine", measured())
    (line,) = report.lines_of(text)
    assert (line.what, line.peer, line.ratio) == ("keyed write 100 B", KAFKA, 2)


def test_processor_time_is_that_of_the_median_round_without_a_broker_that_is_busy_for_others() -> None:
    assert cells(section("a machine", measured()), "sparklog, lz4") == ["1.00", "310", "150", "0", "460"]


def test_section_without_kafka_says_why() -> None:
    results = measured()
    results.skipped[KAFKA] = "wanted Java"
    text = section("a machine", results)
    assert "Skipped: Kafka: wanted Java" in text
