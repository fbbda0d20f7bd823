"""What `promises` sees: acknowledgements after the end of a chain, and processes that say what they should not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.restores.promises import broken, unforeseen
from tests.soak.journal import Line
from tests.soak.writer import PARTITIONS, TOPIC


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cluster whose partition 0 has one value."""
    url = str(tmp_path_factory.mktemp("promises") / "log")
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        cluster.append(TOPIC, pa.table({"value": ["plain-0/0/0/0"], "partition": pa.array([0], pa.int32())}))
    return url


def journal(*, acked: bool = True, turn: int = 0) -> list[Line]:
    begin = {"begin": turn, "values": {"0": [f"plain-0/{turn}/0/0"]}, "at": 5}
    end = {"acked": turn, "ranges": [[0, turn, 1]], "at": 7} if acked else {"unknown": turn, "error": "", "at": 7}
    return [begin, end]


@pytest.mark.parametrize(("restored_at", "is_wrong"), [({}, False), ({"plain-0": 6}, False), ({"plain-0": 4}, True)])
def test_an_append_that_began_after_the_restore_had_succeeded_is_not_acknowledged(
    url: str, restored_at: dict[str, int], is_wrong: bool
) -> None:
    wrong = broken(url, {"plain-0": journal()}, restored_at, {"local"}, Counter())
    assert bool(wrong) == is_wrong, wrong
    assert broken(url, {"plain-0": journal(acked=False)}, restored_at, {"local"}, Counter()) == []


def test_a_value_or_a_store_that_is_missing_is_seen(url: str) -> None:
    (what,) = broken(url, {"plain-0": [*journal(), *journal(turn=1)]}, {}, {"local"}, Counter())
    assert "acknowledged ['plain-0/1/0/0'] at 1" in what
    (what,) = broken(url, {"plain-0": journal()}, {}, {"local", "z1"}, Counter())
    assert what == "store z1 was added, and is not there"


@pytest.mark.parametrize("said", ["Traceback (most recent call last):", "UNKNOWN_SERVER_ERROR: KeyError: 'a'"])
def test_an_error_that_is_not_one_of_sparklogs_is_seen(tmp_path: Path, said: str) -> None:
    (tmp_path / "quiet").write_text("CONFLICT: the cluster is restored elsewhere\n")
    assert unforeseen(tmp_path) == []
    (tmp_path / "loud").write_text(f"one line\n{said}\n")
    (what,) = unforeseen(tmp_path)
    assert what.startswith("loud: ")
