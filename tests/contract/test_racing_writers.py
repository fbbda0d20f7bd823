"""The races of the contract can see a store that breaks its promise."""

from __future__ import annotations

import threading

from sparklog.core.errors import KeyExists
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import Bytes
from tests.contract.racing_writers import LOST, WON, WRITERS, Outcome, Round, race_threads


class _CheckThenWriteStore(MemoryStore):
    """Looks, then writes; meanwhile others look too. That is what fsspec's local and HDFS file systems do."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._all_looked = threading.Barrier(WRITERS)

    def put_if_absent(self, key: str, body: Bytes) -> None:
        taken = self.first_key_after("race/", "") is not None
        self._all_looked.wait(60)
        if taken:
            raise KeyExists(key)


class _UploadByPutStore(_CheckThenWriteStore):
    def upload(self, key: str) -> _PutUpload:  # type: ignore[override]
        return _PutUpload(self, key)


class _PutUpload:
    def __init__(self, store: _CheckThenWriteStore, key: str) -> None:
        self._store, self._key = store, key

    def write(self, body: Bytes) -> None:
        pass

    def publish(self) -> None:
        self._store.put_if_absent(self._key, b"")

    def __enter__(self) -> _PutUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def test_a_store_that_looks_before_it_writes_has_several_winners() -> None:
    store = _UploadByPutStore("memory://negative-control")
    assert race_threads(store, [Round("race/a", 0)]) == [Outcome([WON] * WRITERS, [])]  # type: ignore[arg-type]


def test_an_outcome_is_right_only_if_one_won_and_owns_the_object_and_all_others_know() -> None:
    lost = [LOST] * (WRITERS - 1)
    assert Outcome([WON, *lost], [0]).right
    assert Outcome([*lost, WON], list(range(WRITERS))).right  # empty bodies are everybody's
    assert not Outcome([WON, *lost], []).right
    assert not Outcome([WON, *lost], [1]).right
    assert not Outcome([WON, WON, *lost[1:]], [0]).right
    assert not Outcome([LOST, *lost], [0]).right
    assert not Outcome([WON, *lost[1:], "OutcomeUnknown()"], [0]).right
