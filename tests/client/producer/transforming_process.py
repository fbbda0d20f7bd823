"""A process that makes a bill of each order, exactly once, until there are no more. It kills itself at one place.

Arguments: cluster URL, place, number: where to die, and at which transaction (from 0).

before      after the records were sent and before the commit
uploaded    after the upload of the records and before the commit
committed   after the commit and before anything else hears of it
nowhere     it ends by itself
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import sparklog
from sparklog.client.producer import transaction as transactions
from sparklog.core.records import CommandResult

MOST = 7  # orders of a transaction


def main(url: str, place: str, number: int) -> None:
    done = 0

    def die_at(here: str) -> None:
        if here == place and done == number:
            os.kill(os.getpid(), signal.SIGKILL)

    commit = transactions.commit_append

    def deadly(*args: Any, **kwargs: Any) -> CommandResult:
        die_at("uploaded")
        result = commit(*args, **kwargs)
        die_at("committed")
        return result

    setattr(transactions, "commit_append", deadly)  # noqa: B010
    with (
        sparklog.connect(url) as cluster,
        cluster.consumer(
            "orders", group="billing", auto_offset_reset="earliest", enable_auto_commit=False, group_instance_id="1"
        ) as consumer,
        cluster.producer() as producer,
    ):
        while True:
            with producer.transaction() as transaction:
                transaction.send_offsets(consumer)
                for records in consumer.poll(max_records=MOST).values():
                    for record in records:
                        transaction.send("bills", record.value, key=record.value)
                die_at("before")
            if transaction.result is None:
                return
            done += 1


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
