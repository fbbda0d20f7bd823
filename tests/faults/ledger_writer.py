"""A process that appends as fast as it can, and says what it heard: a line of JSON for each append.

Arguments: cluster URL, the number of the writer, a folder. A file "stop" in that folder ends it, and nothing is written
while there is a file "pause". A file with the id of a store says what this store does meanwhile to whoever writes
there: "hangs" or "full".

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
from pathlib import Path

import pyarrow as pa

import sparklog
from sparklog.core.errors import SparklogError, StoreFull
from sparklog.log.stores import Stores
from tests.client.interfered_stores import Interfered, StoreCalls

TOPIC = "ledger"
PARTITIONS = 2
WRITES = ("put", "publish", "upload")


def main(url: str, number: int, folder: Path) -> None:
    """Writer 0 writes to partition 0, any other to both in one commit."""
    _interfere(folder)
    partitions = [0] if number == 0 else list(range(PARTITIONS))
    turn = 0
    with sparklog.connect(url) as cluster:
        while not (folder / "stop").exists():
            if (folder / "pause").exists():
                print(json.dumps({"paused": True}), flush=True)
                _wait_while_there(folder / "pause")
            values = {at: [f"{number}-{turn}-{at}-{row}" for row in range(2)] for at in partitions}
            try:
                written = cluster.append(TOPIC, rows_of(values))
            except SparklogError as error:
                print(json.dumps({"error": str(error)}), flush=True)
            else:
                ranges = [(each.partition, each.start, values[each.partition]) for each in written.ranges]
                print(json.dumps({"ranges": ranges}), flush=True)
            turn += 1


def rows_of(values: Mapping[int, list[str]]) -> pa.Table:
    rows = [(value, at) for at, of_partition in values.items() for value in of_partition]
    return pa.table({"value": [value for value, _ in rows], "partition": pa.array([at for _, at in rows], pa.int32())})


def _interfere(folder: Path) -> None:
    """Let the stores do what the files say."""
    get = Stores.get
    calls = StoreCalls({store: partial(_spoil, folder / store) for store in "abcd"})
    Stores.get = lambda stores, store: Interfered(get(stores, store), store, calls)  # type: ignore[method-assign]


def _spoil(file: Path, call: str, key: str) -> None:
    if call not in WRITES or not file.exists():
        return
    if file.read_text() == "full":
        raise StoreFull(f"wanted to {call} {key}, found: no space left")
    _wait_while_there(file)


def _wait_while_there(file: Path) -> None:
    while file.exists():
        threading.Event().wait(0.02)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
