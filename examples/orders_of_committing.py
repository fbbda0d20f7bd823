"""At most once and at least once, side by side: a consumer is killed (SIGKILL), and another one continues.

    python examples/orders_of_committing.py

A consumer polls five records at a time, and "processes" a record by adding its value to a file. The first consumer is
killed in its second batch. If it commits before processing, it has committed the batch by then and processed a part:
the rest is lost. If it commits after processing, it has processed the batch and not committed it: the next consumer of
the group repeats it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from steps import CheckFailed, Steps

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.commands import LeaveGroup

RECORDS, BATCH = 20, 5
KILLED_IN_BATCH, PROCESSED_BEFORE = 2, 2  # the killed consumer has processed two records of its second batch
ORDERS = {"at-most-once": "commit, then process", "at-least-once": "process, then commit"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consume", nargs=3, metavar=("ORDER", "CLUSTER", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.consume:
        consume(*given.consume, dies=True)
        return 0
    with tempfile.TemporaryDirectory(prefix="sparklog-orders-") as folder:
        try:
            show(Path(folder))
        except CheckFailed as failed:
            print(f"FAILED: {failed}", file=sys.stderr)
            return 1
    return 0


# ---- the consumer, as a service would be written ---------------------------------------------------------


def consume(order: str, cluster_url: str, path: str, *, dies: bool) -> None:
    """Consume the topic to its end, and add each record's value to the file `path`.

    `order` is a key of ORDERS: it says whether a batch is committed before or after processing. If `dies`, this process
    kills itself in its second batch.
    """
    with sparklog.connect(cluster_url) as cluster, open(path, "a", encoding="utf-8") as processed:
        consumer = cluster.consumer("orders", group=order, auto_offset_reset="earliest", enable_auto_commit=False)
        with consumer:
            number = 0
            while batch := consumer.poll(max_records=BATCH):
                number += 1
                records = [record for of_partition in batch.values() for record in of_partition]
                if order == "at-most-once":
                    consumer.commit()
                for done, record in enumerate(records):
                    if dies and order == "at-most-once" and (number, done) == (KILLED_IN_BATCH, PROCESSED_BEFORE):
                        os.kill(os.getpid(), signal.SIGKILL)
                    print((record.value or b"").decode(), file=processed, flush=True)
                if dies and order == "at-least-once" and number == KILLED_IN_BATCH:
                    os.kill(os.getpid(), signal.SIGKILL)
                if order == "at-least-once":
                    consumer.commit()


# ---- the outcome -----------------------------------------------------------------------------------------


def show(folder: Path) -> None:
    """Run both orders, each with a kill. Raises CheckFailed unless the expected records are lost and repeated."""
    steps, url = Steps(time.monotonic()), str(folder / "cluster")
    init_cluster(url)
    import pyarrow as pa

    with sparklog.connect(url) as cluster:
        cluster.create_topic("orders", partitions=1)
        cluster.append("orders", pa.table({"value": [str(number) for number in range(RECORDS)]}))
    steps.say(f"topic orders has {RECORDS} records; each consumer is killed in its batch {KILLED_IN_BATCH} of {BATCH}")
    start = (KILLED_IN_BATCH - 1) * BATCH
    wanted = {
        "at-most-once": (list(range(start + PROCESSED_BEFORE, start + BATCH)), []),
        "at-least-once": ([], list(range(start, start + BATCH))),
    }
    for order, how in ORDERS.items():
        path = folder / f"{order}.txt"
        command = [sys.executable, __file__, "--consume", order, url, str(path)]
        steps.check("the first consumer was killed", subprocess.run(command, check=False).returncode, -signal.SIGKILL)
        evict(url, order)  # or wait for its session to end: 45 seconds
        consume(order, url, str(path), dies=False)
        counts = Counter(int(line) for line in path.read_text(encoding="utf-8").split())
        lost = [number for number in range(RECORDS) if not counts[number]]
        repeated = [number for number in range(RECORDS) if counts[number] > 1]
        steps.say(f"{how} ({order}): lost {shown(lost)}, repeated {shown(repeated)}")
        steps.check(order, (lost, repeated), wanted[order])
    steps.say("all checks passed")


def evict(url: str, group: str) -> None:
    """Remove the killed member from the group, so that the next consumer need not wait for its session to end."""
    with sparklog.connect(url) as cluster:
        for member in cluster.describe_group(group).members:
            cluster.submit(LeaveGroup(group, member.member))


def shown(numbers: list[int]) -> str:
    """Format numbers as one line."""
    return ", ".join(map(str, numbers)) or "nothing"


if __name__ == "__main__":
    sys.exit(main())
