"""The probe: stores that hold what a log needs pass, each kind of fault is named, nothing stays behind."""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.core.errors import Damaged, KeyExists, OutcomeUnknown, StoreUnfit
from sparklog.host.deadline import Deadline
from sparklog.storage import memory, probe
from sparklog.storage.local.store import LocalStore
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import Bytes, StoredKey

pytestmark = pytest.mark.usefixtures("whole_probe")

ID = "ab" * 16


class Overwriting(MemoryStore):
    """Answers success to every writer, as a server that ignores `If-None-Match` does."""

    def put_if_absent(self, key: str, body: Bytes) -> None:
        self.delete(key)
        with suppress(KeyExists):  # another writer was quicker
            super().put_if_absent(key, body)


class OldListing(MemoryStore):
    """Lists what was there before the newest object."""

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        return iter(list(super().list_keys(prefix))[:-1])


class Undying(MemoryStore):
    """Deletes nothing that is called `…-delete`."""

    def delete(self, key: str) -> None:
        if not key.endswith("-delete"):
            super().delete(key)


class Shortening(MemoryStore):
    """Answers a range beyond the end with what there is."""

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        body = self.get(key)
        return [body[start:end] for start, end in ranges]


class Losing(MemoryStore):
    """Answers success to every writer of a race, and keeps nothing."""

    def put_if_absent(self, key: str, body: Bytes) -> None:
        if "-put-" not in key:
            super().put_if_absent(key, body)


class TellingTheWrongOne(MemoryStore):
    """Tells the loser of a race that it has won, and the winner that it has lost."""

    in_doubt = False

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.first = threading.Lock()
        self.raced: dict[str, int] = {}

    def put_if_absent(self, key: str, body: Bytes) -> None:
        if "-put-" not in key:
            return super().put_if_absent(key, body)
        with self.first:
            number = self.raced[key] = self.raced.get(key, 0) + 1
            if number == 1:
                super().put_if_absent(key, body)
                if self.in_doubt:
                    raise OutcomeUnknown("told so")
            if number != 2:
                raise KeyExists("told so")


class TellingTheWrongOneOfADoubt(TellingTheWrongOne):
    """The same, but the winner of the race does not learn its outcome."""

    in_doubt = True


@pytest.mark.parametrize("thorough", [False, True])
def test_a_store_that_holds_what_a_log_needs_passes_and_nothing_stays(tmp_path: Path, thorough: bool) -> None:
    store = LocalStore(str(tmp_path / "store"))
    checks = probe.probe(store, ID, thorough=thorough)
    assert [check.fault for check in checks] == [""] * (7 if thorough else 5)
    assert list(store.list_keys("")) == []


@pytest.mark.parametrize(
    ("kind", "check", "found"),
    [
        (Overwriting, "of writers that race for a key one wins", "8 of 8 writers got the answer that they created"),
        (
            TellingTheWrongOne,
            "of writers that race for a key one wins",
            "not that of the writer whose write was acknowledged",
        ),
        (
            TellingTheWrongOneOfADoubt,
            "of writers that race for a key one wins",
            "not that of the writer whose write was acknowledged",
        ),
        (Losing, "of writers that race for a key one wins", "no object, although 8 of 8 writers got the answer"),
        (OldListing, "keys are listed at once, all, and in order", "11 of 12 keys"),
        (Undying, "a deleted object is gone", "still there after it was deleted"),
        (Shortening, "a new object is there at once, whole", "beyond the end"),
    ],
)
def test_a_store_that_fails_is_refused_by_what_failed(kind: type[MemoryStore], check: str, found: str) -> None:
    store = kind(f"memory://probe-{kind.__name__}")
    with pytest.raises(StoreUnfit) as refused:
        probe.check_store(store, ID)
    assert f"wanted: {check}, found: " in refused.value.message
    assert found in refused.value.message
    assert refused.value.exit_code == 5


@pytest.mark.parametrize(("fewest", "time_ms", "rounds"), [(0, 0, 0), (2, 0, 2), (0, 60_000, 5)])
def test_rounds_beyond_the_fewest_are_left_out_when_the_time_is_over(fewest: int, time_ms: int, rounds: int) -> None:
    store = MemoryStore(f"memory://probe-rounds-{rounds}")
    races = probe.Races("one wins", "-put", 2, False, fewest, 5)
    assert probe._run(races, Deadline(time_ms), store, "race") == ""
    assert [each.key for each in store.list_keys("")] == [f"race-{number}" for number in range(rounds)]


def test_no_cluster_is_made_on_a_store_that_lets_two_writers_win(monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrite(contents: memory._Contents, url: str, key: str, body: bytes) -> None:
        if key not in contents.objects:
            insort(contents.keys, key)
        contents.objects[key] = body, 0

    monkeypatch.setattr(memory._Contents, "put_if_absent", overwrite)
    with pytest.raises(StoreUnfit, match=r"of writers that race .* of streamed uploads that race"):
        init_cluster("memory://unfit")
    assert list(MemoryStore("memory://unfit").list_keys("")) == []


def test_damaged_is_what_a_probe_wants_of_a_range_beyond_the_end() -> None:
    store = MemoryStore("memory://probe-range")
    store.put_if_absent("a", b"12")
    with pytest.raises(Damaged):
        store.get_ranges("a", [(0, 3)])
