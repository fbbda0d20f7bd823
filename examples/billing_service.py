"""A Python service that reads orders as a member of a group and writes an invoice for each, until SIGTERM or Ctrl-C.

    sparklog --cluster /tmp/demo cluster init
    sparklog --cluster /tmp/demo topic create orders --partitions 3
    sparklog --cluster /tmp/demo topic create invoices --partitions 3
    python examples/billing_service.py --cluster /tmp/demo        # start several: they share the partitions

An order is JSON like {"customer": "c1", "amount": 12}. The id of an invoice is the order's place in the log, so readers
can recognize a repeat: the service commits after it has written (at least once).
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from collections.abc import Iterable

import pyarrow as pa

import sparklog
from sparklog.client.consumer.consumer_record import ConsumerRecord
from sparklog.core.errors import IllegalGeneration, UnknownMemberId, Wakeup

log = logging.getLogger("billing")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", required=True, help="the address of the cluster")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    with sparklog.connect(given.cluster) as cluster:
        consumer = cluster.consumer(
            "orders", group="billing", auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=1_000
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: consumer.wakeup())
        with consumer:
            log.info("ready")
            try:
                while True:
                    orders = [record for records in consumer.poll(timeout_ms=60_000).values() for record in records]
                    if not orders:
                        continue
                    invoices = list(invoices_of(orders))
                    if invoices:
                        cluster.append("invoices", pa.Table.from_pylist(invoices))
                    try:
                        consumer.commit()
                    except (IllegalGeneration, UnknownMemberId) as error:
                        log.warning("another member has the partitions, and will write these invoices again: %s", error)
                    log.info("%d orders, %d invoices", len(orders), len(invoices))
            except Wakeup:
                log.info("stopping")
    return 0


def invoices_of(orders: Iterable[ConsumerRecord]) -> Iterable[dict[str, str]]:
    """Yield an invoice for each order, as a row of the topic `invoices`. An unreadable order is logged and skipped."""
    for record in orders:
        place = f"{record.topic}-{record.partition}@{record.offset}"
        try:
            order = json.loads(record.value or b"")
            customer, amount = str(order["customer"]), float(order["amount"])
        except (ValueError, KeyError, TypeError) as error:
            log.warning("%s is no order: %r", place, error)
            continue
        yield {"key": customer, "value": json.dumps({"id": place, "customer": customer, "amount": amount})}


if __name__ == "__main__":
    sys.exit(main())
