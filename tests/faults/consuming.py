"""A consumer that a test may kill: it writes down each record that it reads, then commits (at least once).

    python -m tests.faults.consuming CLUSTER FILE

A line of FILE is "GROUP-NUMBER GENERATION TOPIC PARTITION OFFSET", there before the commit. SIGTERM ends it.
"""

from __future__ import annotations

import signal
import sys

import sparklog
from sparklog.core.errors import IllegalGeneration, UnknownMemberId, Wakeup

TOPICS = ("orders", "payments", "returns")
GROUP = "billing"
SESSION_MS = 6_000  # the least that a cluster allows


def main(url: str, path: str) -> None:
    with sparklog.connect(url) as cluster, open(path, "a", encoding="utf-8") as seen:
        consumer = cluster.consumer(
            *TOPICS,
            group=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
            max_poll_records=20,
        )
        signal.signal(signal.SIGTERM, lambda *_: consumer.wakeup())
        with consumer:
            try:
                while True:
                    found = consumer.poll(500)
                    generation = consumer._reading.positions.generation
                    if found and generation is not None:
                        fence = f"{generation.group_number} {generation.number}"
                        seen.writelines(
                            f"{fence} {topic} {partition} {record.offset}\n"
                            for (topic, partition), records in found.items()
                            for record in records
                        )
                        seen.flush()
                    try:
                        consumer.commit()
                    except (IllegalGeneration, UnknownMemberId):
                        continue
            except Wakeup:
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
