"""A process that writes through addresses of coordinators while these are replaced, and says what it heard and when.

Arguments: the addresses, the number of the process, how many threads write. Its input ends, and so do the writers. Even
threads append to all partitions in one commit; odd ones send through a producer of their own. Its output:

    {"writer": "0.1", "at_s": 12.5, "ranges": [[partition, start, [value, …]], …]}   acknowledged: there for ever
    {"writer": "0.1", "error": "CODE: …"}                                         and this writer has ended

`at_s` is of the machine's monotonic clock, which is the same in all processes.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.client.producer.record_future import RecordFuture
from tests.faults.ledger_writer import rows_of

TOPIC = "ledger"
PARTITIONS = 3
_PAUSE_S = 0.02  # between two writes of a thread: each is an object, which the test reads again
_AHEAD = 20  # records of a producer that nobody has acknowledged yet
_saying = threading.Lock()


def main(addresses: str, process: int, threads: int) -> None:
    over = threading.Event()
    writers = [
        threading.Thread(target=_write, args=(addresses, f"{process}.{number}", number % 2 == 1, over))
        for number in range(threads)
    ]
    for writer in writers:
        writer.start()
    sys.stdin.read()
    over.set()
    for writer in writers:
        writer.join()


def _write(addresses: str, writer: str, sends: bool, over: threading.Event) -> None:
    try:
        with sparklog.connect(addresses) as cluster:
            (_send if sends else _append)(cluster, writer, over)
    except BaseException as error:
        _say(writer, error=f"{type(error).__name__}: {error}")
        raise


def _append(cluster: Cluster, writer: str, over: threading.Event) -> None:
    turn = 0
    while not over.wait(_PAUSE_S):
        values = {at: [f"{writer}-{turn}-{at}-{row}" for row in range(2)] for at in range(PARTITIONS)}
        written = cluster.append(TOPIC, rows_of(values))
        _say(writer, ranges=[(each.partition, each.start, values[each.partition]) for each in written.ranges])
        turn += 1


def _send(cluster: Cluster, writer: str, over: threading.Event) -> None:
    sent: deque[tuple[str, RecordFuture]] = deque()
    turn = 0
    with cluster.producer(linger_ms=5) as producer:
        while not over.wait(_PAUSE_S / 2):
            at = turn % PARTITIONS
            value = f"{writer}-{turn}-{at}-0"
            sent.append((value, producer.send(TOPIC, value.encode(), partition=at)))
            turn += 1
            while sent and (len(sent) >= _AHEAD or sent[0][1].done()):
                _hear(writer, *sent.popleft())
        while sent:
            _hear(writer, *sent.popleft())


def _hear(writer: str, value: str, future: RecordFuture) -> None:
    heard = future.result()
    _say(writer, ranges=[(heard.partition, heard.offset, [value])])


def _say(writer: str, **said: object) -> None:
    with _saying:
        print(json.dumps({"writer": writer, "at_s": time.monotonic(), **said}), flush=True)


if __name__ == "__main__":
    import tests.kit.pandas_hidden  # noqa: F401

    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
