"""Applications are forgotten by a command only, at the version and age that somebody has seen; old runs are fenced."""

from __future__ import annotations

import pytest

from sparklog.core.commands import Application, ForgetApplications, RaiseFloor
from sparklog.core.decide.command import Decision
from sparklog.core.errors import InvalidInput, InvalidProducerEpoch, OutOfOrderSequence
from sparklog.core.idempotence.applications import MOST_RUNS, old_applications
from sparklog.core.types import EntryNumber
from tests.core.decided_log import DecidedLog


@pytest.fixture
def log() -> DecidedLog:
    """Applications a, b, c wrote version 1 at 1,000, 2,000 and 3,000 ms; FLOOR is behind them."""
    log = DecidedLog()
    for at, app_id in enumerate("abc", 1):
        log.now_ms = 1_000 * at
        log.append(1, application=Application(app_id, 1))
    raise_floor(log)
    return log


def raise_floor(log: DecidedLog) -> None:
    log.submit(RaiseFloor(EntryNumber(log.state.n + 1)))


def forget(*applications: tuple[str, int]) -> ForgetApplications:
    return ForgetApplications(tuple(Application(*each) for each in applications))


def test_those_that_wrote_last_before_a_time_and_before_floor_are_old(log: DecidedLog) -> None:
    log.append(1, application=Application("a", 2))
    assert old_applications(log.state, 10_000) == [Application("b", 1), Application("c", 1)]
    assert old_applications(log.state, 3_000) == [Application("b", 1)]
    assert old_applications(log.state, 10_000, {"a", "c"}) == [Application("c", 1)]
    raise_floor(log)
    assert old_applications(log.state, 10_000, {"a"}) == [Application("a", 2)]


def test_a_forgotten_application_writes_its_version_once_more(log: DecidedLog) -> None:
    log.submit(forget(("b", 1)))
    assert set(log.state.applications) == {"a", "c"}
    log.append(3, application=Application("b", 1))
    assert log.partition().next_offset == 6
    log.append(3, application=Application("a", 1))
    assert log.partition().next_offset == 6


def test_one_that_wrote_since_it_was_seen_stays(log: DecidedLog) -> None:
    log.append(1, application=Application("b", 2))
    raise_floor(log)
    log.submit(forget(("a", 1), ("b", 1), ("a", 1), ("gone", 1)))
    assert {app_id: each.version for app_id, each in log.state.applications.items()} == {"b": 2, "c": 1}
    assert log.decide(forget(("a", 1), ("b", 1))) == Decision()


def test_one_that_wrote_since_floor_is_not_forgotten(log: DecidedLog) -> None:
    """A try of that write may be on its way: it would be there twice."""
    log.append(1, application=Application("b", 2))
    with pytest.raises(InvalidInput, match=r"when FLOOR \(\d+\) has passed its last write, b wrote in entry"):
        log.submit(forget(("a", 1), ("b", 2)))
    assert set(log.state.applications) == {"a", "b", "c"}


def test_an_application_remembers_its_newest_runs_and_one_without_runs_has_none() -> None:
    log = DecidedLog()
    runs = [f"run {number}" for number in range(MOST_RUNS + 3)]
    for version, run in enumerate(runs):
        for _ in range(2):  # the second one is a repeat
            log.append(1, application=Application("query", version, run))
    assert log.state.applications["query"].runs == tuple(reversed(runs[3:]))
    assert log.partition().next_offset == len(runs)
    with pytest.raises(InvalidProducerEpoch, match=f"run {runs[5]} is fenced, because run {runs[-1]} has written"):
        log.append(1, application=Application("query", len(runs), runs[5]))
    log.append(1, application=Application("job", 0))
    assert log.state.applications["job"].runs == ()


def test_a_version_that_is_made_of_something_else_is_no_repeat() -> None:  # M: I-04
    log = DecidedLog()
    log.append(1, application=Application("query", 0, "run 1", "digest a"))
    for run in ("run 1", "run 2"):
        log.append(1, application=Application("query", 0, run, "digest a"))
        with pytest.raises(OutOfOrderSequence, match=r"version 0 of query .* is made of something else now"):
            log.append(1, application=Application("query", 0, run, "digest b"))
        log.append(1, application=Application("query", 0, run))  # its author can't tell
    log.append(1, application=Application("query", 1, "run 2", "digest b"))
    assert log.partition().next_offset == 2


def test_a_version_that_nobody_could_tell_the_contents_of_is_a_repeat() -> None:
    log = DecidedLog()
    for made_of in ("", "digest"):
        log.append(1, application=Application("query", 0, "run", made_of))
    assert log.partition().next_offset == 1
