"""The examples of consumers, as users run them: each is a process, or several."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import sparklog
from sparklog.client.bootstrap import init_cluster

EXAMPLES = Path(__file__).parents[2] / "examples"


# M: I-07 (kills)
def test_a_killed_consumer_loses_or_repeats_what_the_order_of_its_commits_says() -> None:
    program = [sys.executable, str(EXAMPLES / "orders_of_committing.py")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "commit, then process (at-most-once): lost 7, 8, 9, repeated nothing" in done.stdout
    assert "process, then commit (at-least-once): lost nothing, repeated 5, 6, 7, 8, 9" in done.stdout
    assert "all checks passed" in done.stdout


def test_the_service_bills_each_order_and_leaves_its_group_when_it_is_stopped(tmp_path: Path) -> None:
    url = str(tmp_path / "cluster")
    init_cluster(url)
    orders = [json.dumps({"customer": f"c{number % 3}", "amount": number}) for number in range(10)]
    with sparklog.connect(url) as cluster:
        for topic in ("orders", "invoices"):
            cluster.create_topic(topic, partitions=2)
        cluster.append(
            "orders", pa.table({"key": [f"{number}" for number in range(11)], "value": [*orders, "no order"]})
        )
        program = [sys.executable, str(EXAMPLES / "billing_service.py"), "--cluster", url]
        service = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
        try:
            amounts: list[float] = []
            with cluster.consumer("invoices", auto_offset_reset="earliest", consumer_timeout_ms=60_000) as invoices:
                for record in invoices:
                    amounts.append(json.loads(record.value or b"")["amount"])
                    if len(amounts) == len(orders):
                        break
            service.send_signal(signal.SIGTERM)
            said = service.communicate(timeout=60)[1]
        finally:
            service.kill()
            service.wait()
        assert service.returncode == 0, said
        assert sorted(amounts) == list(range(10))
        assert "is no order" in said
        described = cluster.describe_group("billing")
        assert (described.members, described.lag) == ((), 0)
