"""The checker sees what it is there for: each way to break a promise, in a history that is otherwise right."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.soak.checker import History, complaints

Replicas = dict[str, dict[int, list[str]]]
Journals = dict[str, list[dict[str, Any]]]

LOG = {0: ["plain-0/0/0/0", "plain-0/0/0/1", "producer-0/0/0/0", "plain-0/2/0/0"], 1: ["plain-0/0/1/0"]}
WRITERS: Journals = {
    "plain-0": [
        {"begin": 0, "values": {"0": ["plain-0/0/0/0", "plain-0/0/0/1"], "1": ["plain-0/0/1/0"]}},
        {"acked": 0, "ranges": [[0, 0, 2], [1, 0, 1]]},
        {"begin": 1, "values": {"0": ["plain-0/1/0/0"]}},
        {"refused": 1, "error": "NOT_ENOUGH_REPLICAS: …"},
        {"begin": 2, "values": {"0": ["plain-0/2/0/0"]}},  # killed: the outcome is unknown
    ],
    "producer-0": [
        {"begin": 0, "values": {"0": ["producer-0/0/0/0"]}},
        {"acked": 0, "ranges": [[0, 2, 1]]},
    ],
}
READERS: Journals = {
    "reader-0": [{"seen": 0, "hw": 3}, {"read": 0, "start": 0, "values": LOG[0][:3]}, {"seen": 0, "hw": 4}],
}


def checked(spoil: Callable[[Replicas, Journals, Journals], object]) -> list[str]:
    replicas = {store: copy.deepcopy(LOG) for store in "ab"}
    writers, readers = copy.deepcopy(WRITERS), copy.deepcopy(READERS)
    spoil(replicas, writers, readers)
    return complaints(History(writers, readers), replicas)


def everywhere(change: Callable[[dict[int, list[str]]], object]) -> Callable[[Replicas, Journals, Journals], object]:
    return lambda replicas, writers, readers: [change(log) for log in replicas.values()]


def test_a_right_history_has_no_complaints() -> None:
    history = History(WRITERS, READERS)
    assert complaints(history, {"a": LOG, "b": LOG}) == []
    assert dict(history.counts) == {"acknowledged": 4, "refused": 1, "unknown": 1, "unknown, there": 1, "read": 3}


def test_an_append_of_unknown_outcome_may_be_missing() -> None:
    def spoil(replicas: Replicas, writers: Journals, readers: Journals) -> None:
        for log in replicas.values():
            log[0].pop()
        readers["reader-0"].pop()

    assert checked(spoil) == []


def test_an_append_of_unknown_outcome_and_no_identity_may_be_late() -> None:
    def spoil(replicas: Replicas, writers: Journals, readers: Journals) -> None:
        writers["plain-0"] += [{"begin": 3, "values": {"1": ["plain-0/3/1/0"]}}, {"acked": 3, "ranges": [[1, 1, 1]]}]
        writers["plain-0"][4]["values"] = {"1": ["plain-0/2/1/0"]}
        for log in replicas.values():
            log[0].pop()
            log[1] += ["plain-0/3/1/0", "plain-0/2/1/0"]
        readers["reader-0"].pop()

    assert checked(spoil) == []


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        pytest.param(everywhere(lambda log: log[0].pop(0)), "acknowledged", id="an acknowledged record is lost"),
        pytest.param(everywhere(lambda log: log[1].append(log[1][0])), "more than once", id="a record is there twice"),
        pytest.param(everywhere(lambda log: log[0].reverse()), "after turn and row", id="out of order"),
        pytest.param(everywhere(lambda log: log[1].append("plain-0/1/0/0")), "are there", id="refused, but there"),
        pytest.param(everywhere(lambda log: log[1].append("plain-9/1/0/0")), "nobody wrote", id="from nowhere"),
        pytest.param(everywhere(lambda log: log[1].clear()), "only", id="a part of an append"),
        pytest.param(lambda replicas, *_: replicas["b"][0].pop(), "beside store a", id="replicas differ"),
        pytest.param(
            lambda replicas, writers, readers: readers["reader-0"].append({"seen": 0, "hw": 2}),
            "back to 2",
            id="the high watermark goes back",
        ),
        pytest.param(
            lambda replicas, writers, readers: readers["reader-0"].append({"seen": 0, "hw": 9}),
            "the log ends at 4",
            id="a reader saw an end that is gone",
        ),
        pytest.param(
            lambda replicas, writers, readers: readers["reader-0"][1]["values"].reverse(),
            "differs from",
            id="a reader saw another record",
        ),
        pytest.param(
            lambda replicas, writers, readers: readers["reader-0"].append({"error": "gone", "code": "DATA_LOSS"}),
            "gone",
            id="a reader was refused what is there",
        ),
    ],
)
def test_a_broken_promise_is_seen(spoil: Callable[[Replicas, Journals, Journals], object], complaint: str) -> None:
    wrong = checked(spoil)
    assert any(complaint in what for what in wrong), wrong
