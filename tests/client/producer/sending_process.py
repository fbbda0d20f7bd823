"""A process with a producer. Arguments: cluster URL, what it does. It never closes anything by itself.

ends N           sends N records and ends
fails N          sends N records and ends with an exception
leaves N         sends N records, and ends while another thread goes on and sends N more
forks N          sends N records and forks; parent and child each send one more, and end as programs do
sends            sends records until it is killed; prints the number of each that is acknowledged
"""

from __future__ import annotations

import os
import sys
import threading

import sparklog
from sparklog.client.producer.producer import Producer
from sparklog.client.producer.record_future import RecordFuture
from sparklog.core.errors import InvalidInput

LONG_MS = 50_000


def main(url: str, what: str, count: int = 0) -> None:
    cluster = sparklog.connect(url)
    producer = cluster.producer(linger_ms=1 if what == "sends" else LONG_MS)
    if what == "sends":
        _send_on(producer)
    futures = [producer.send("t", f"{n}", key=f"{n}") for n in range(count)]
    if what == "leaves":
        threading.Thread(target=_send_late, args=(producer, count)).start()
    if what == "fails":
        raise RuntimeError("as a program may fail")
    if what == "forks":
        child = os.fork()
        if not child:
            try:
                producer.send("t", "never")
            except InvalidInput as error:
                print(error, futures[0].exception() is not None, flush=True)
            sparklog.connect(url).producer(linger_ms=LONG_MS).send("t", "child", key="child")
            return
        os.waitpid(child, 0)
        producer.send("t", "parent", key="parent")


def _send_late(producer: Producer, count: int) -> None:
    threading.main_thread().join()
    for n in range(count, 2 * count):
        producer.send("t", f"{n}", key=f"{n}")


def _send_on(producer: Producer) -> None:
    number = 0
    while True:
        text = f"{number}"
        future = producer.send("t", text, key=text)
        future.add_done_callback(lambda done, text=text: _say(done, text))
        number += 1
        if number % 500 == 0:
            future.result()


def _say(done: RecordFuture, text: str) -> None:
    if done.exception() is None:
        os.write(1, f"{text}\n".encode())  # several threads call this, and `print` would write text and end apart


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *(int(text) for text in sys.argv[3:]))
