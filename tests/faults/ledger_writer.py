"""A process that appends as fast as it can, and says what it heard: a line of JSON for each append.

Arguments: cluster URL, the number of the writer. Its input is orders, a line each, and its end is the writer's end:

    pause                      write nothing before `go`
    go
    hangs STORE                what this store does from now on to the writer's writes
    full STORE
    serves STORE               as if nothing had happened

Its output:

    {"ranges": [[partition, start, [value, …]], …]}        acknowledged with acks=all: there for ever
    {"error": "CODE: …"}
    {"paused": true}
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from functools import partial

import pyarrow as pa

import sparklog
from sparklog.core.errors import SparklogError, StoreFull
from sparklog.log.cluster_stores import Stores
from tests.client.interfered_stores import StoreCalls
from tests.kit import faulty_store

TOPIC = "ledger"
PARTITIONS = 2
WRITES = (*faulty_store.WRITES, "upload")


class Orders:
    """What the input has said so far, followed by a thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._paused = self._over = False
        self._stores: dict[str, str] = {}  # what they do
        threading.Thread(target=self._follow, daemon=True).start()

    def may_go_on(self) -> bool:
        """Wait while there is a pause. False at the end."""
        with self._changed:
            if self._paused:
                _say(paused=True)
            self._changed.wait_for(lambda: self._over or not self._paused)
            return not self._over

    def spoil(self, store: str, call: str, key: str) -> None:
        """What the store does to this call."""
        if call not in WRITES:
            return
        with self._changed:
            if self._stores.get(store) == "full":
                raise StoreFull(f"wanted to {call} {key}, found: no space left")
            self._changed.wait_for(lambda: self._over or self._stores.get(store) != "hangs")

    def _follow(self) -> None:
        for line in sys.stdin:
            order, *stores = line.split()
            with self._changed:
                if stores:
                    self._stores[stores[0]] = order
                else:
                    self._paused = order == "pause"
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()


def main(url: str, number: int) -> None:
    """Writer 0 writes to partition 0, any other to both in one commit."""
    orders = Orders()
    Stores.get = StoreCalls({store: partial(orders.spoil, store) for store in "abcd"}).between(Stores.get)  # type: ignore[method-assign, assignment]
    partitions = [0] if number == 0 else list(range(PARTITIONS))
    turn = 0
    with sparklog.connect(url) as cluster:
        while orders.may_go_on():
            values = {at: [f"{number}-{turn}-{at}-{row}" for row in range(2)] for at in partitions}
            try:
                written = cluster.append(TOPIC, rows_of(values))
            except SparklogError as error:
                _say(error=str(error))
            else:
                _say(ranges=[(each.partition, each.start, values[each.partition]) for each in written.ranges])
            turn += 1


def rows_of(values: Mapping[int, list[str]]) -> pa.Table:
    rows = [(value, at) for at, of_partition in values.items() for value in of_partition]
    return pa.table({"value": [value for value, _ in rows], "partition": pa.array([at for _, at in rows], pa.int32())})


def _say(**said: object) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    import tests.kit.pandas_hidden  # noqa: F401

    main(sys.argv[1], int(sys.argv[2]))
