"""What copies of the chain cost: commits with `metadata.copies` of 0 and 1, where each put takes 60 ms.

python -m tests.bench.metadata_copies        prints a line per figure
"""

from __future__ import annotations

import statistics
import threading
import time
import uuid

from sparklog.chain.committer import Committer, new_command_id
from sparklog.chain.copies import Copies
from sparklog.chain.follower import Follower
from sparklog.client.bootstrap import init_cluster
from sparklog.core.commands import AllocateProducer, Submission
from sparklog.core.coordinators import Author
from sparklog.core.readable import counted
from tests.bench.commits import SlowStore

CALLERS = 64


def copies_rates(seconds: float = 4.0) -> list[tuple[str, str]]:
    """Rows for the report: (what was measured, its figure)."""
    return [_row(copies, callers, seconds) for callers in (1, CALLERS) for copies in (0, 1)]


def _row(copies: int, callers: int, seconds: float) -> tuple[str, str]:
    name = uuid.uuid4().hex
    chain, other = SlowStore(f"memory://{name}"), SlowStore(f"memory://{name}-b")
    init_cluster(chain.url, stores={"b": other.url}, config={"metadata.copies": copies})
    follower = Follower(chain, copies=Copies(chain, lambda state, store: other, lambda store: True))
    follower.open()
    committer = Committer(follower, Author("client", "bench"))
    chain.slow = other.slow = True
    took: list[float] = []
    end = time.perf_counter() + seconds

    def work() -> None:
        while (begin := time.perf_counter()) < end:
            committer.submit(Submission(new_command_id(), committer.position(), AllocateProducer()))
            took.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=work) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    what = f"commits, 60 ms a put, metadata.copies={copies}, {counted(callers, 'caller')}"
    figure = f"{len(took) / seconds:.0f} commits/s, p50 {statistics.median(took) * 1000:.0f} ms"
    print(f"{what}: {figure}", flush=True)
    return what, figure


if __name__ == "__main__":
    copies_rates()
