"""What a restore from the copies of a lost chain costs: time, requests and memory, each run in a process of its own.

python -m bench.restores        prints a line per figure
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.lost_chains import chain_of_entries, chain_of_segments, linked
from bench.paired import Spread
from bench.soak import rss_mib
from bench.state_scale import THREE
from sparklog.storage.local.store import LocalStore
from sparklog.storage.open_store import open_store
from tests.servers.fault_proxy import FaultProxy
from tests.servers.run_with import server

ENTRIES = 100_000
SEGMENTS, PARTITIONS = 1_000_000, 1_000
TAIL = 999  # entries after a snapshot: with the next one another snapshot is due
LATE_MS = 20  # each request to S3
ROUNDS = 5
_AT_ONCE = 16

_PORT = {
    **dict.fromkeys(("get", "get_ranges", "size"), "GET"),
    "upload": "PUT",  # a part of every put
    **dict.fromkeys(("list_keys", "first_key_after"), "LIST"),
    **dict.fromkeys(("delete", "delete_many"), "DELETE"),
}
Run = dict[str, Any]  # what a run found: seconds, MiB beyond the imports, and requests by kind


def restores(
    folder: Path, entries: int = ENTRIES, segments: int = SEGMENTS, tail: int = TAIL, rounds: int = ROUNDS
) -> list[tuple[str, str]]:
    """Rows for the report: (what was measured, its figure)."""
    rows = []
    chain, large = folder / "entries", folder / "segments"
    with chain_of_entries(chain, entries) as snapshot_and:
        rows.append(_on_disk(chain, f"{entries:,} entries, no snapshot", rounds))
        snapshot_and(tail)
    rows.append(_on_disk(chain, f"{entries + tail:,} entries, {tail} of them after the newest snapshot", rounds))
    chain_of_segments(large, segments, min(PARTITIONS, segments), tail)
    what = f"{segments:,} segments on three stores, {tail} entries after the newest snapshot"
    return [*rows, _on_disk(large, what, rounds), _on_s3(large, what, rounds)]


def _on_disk(folder: Path, what: str, rounds: int) -> tuple[str, str]:
    runs = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=folder) as here:
            linked(folder, Path(here))
            runs.append(_run(f"file://{here}", {}))
    return _row(f"{what}; disk", runs)


def _on_s3(folder: Path, what: str, rounds: int) -> tuple[str, str]:
    runs = []
    with server("s3") as variables, FaultProxy(variables["AWS_ENDPOINT_URL"], LATE_MS) as proxy:
        os.environ.update({name: value for name, value in variables.items() if name != "STORE"})
        for _ in range(rounds):
            root = f"{variables['STORE']}/{uuid.uuid4().hex}"
            _uploaded(folder, root)
            proxy.forget()
            found = _run(root, {"AWS_ENDPOINT_URL": proxy.url})
            runs.append({**found, "requests": dict(proxy.counts())})
    return _row(f"{what}; S3, {LATE_MS} ms a request", runs)


def _uploaded(folder: Path, root: str) -> None:
    """Put all objects of the stores under an address."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for name in THREE:
            source, target = LocalStore(str(folder / name)), open_store(f"{root}/{name}")
            copy: Callable[[str], object] = lambda key, source=source, target=target: target.put_if_absent(  # type: ignore[misc]  # noqa: E731
                key, source.get(key)
            )
            list(pool.map(copy, [stored.key for stored in source.list_keys("")]))


def _run(root: str, environment: Mapping[str, str]) -> Run:
    """Restore the cluster whose stores are at `root`, in a process of its own."""
    command = [sys.executable, "-m", "bench.restores", root]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    found: Run = json.loads(done.stdout)
    return found


def _row(what: str, runs: list[Run]) -> tuple[str, str]:
    took, memory = (Spread.of([run[name] for run in runs]) for name in ("seconds", "mib"))
    counts = Counter(runs[-1]["requests"])
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    figure = f"{took.shown(2)} s, {counts.total():,} requests ({kinds}), {memory.high:.0f} MiB beyond the imports"
    print(f"restore of {what}: {figure}", flush=True)
    return f"restore of {what}", figure


# ---- in a process of its own ----------------------------------------------------------------------


def _measured(root: str) -> Run:
    from sparklog.client.restoring.restore_cluster import restore_cluster

    calls: list[str] = []
    for name, kind in _PORT.items():
        setattr(LocalStore, name, _counted(getattr(LocalStore, name), kind, calls))
    before = rss_mib()
    begin = time.perf_counter()
    restore_cluster(f"{root}/meta", {str(store): f"{root}/{store}" for store in THREE})
    took = time.perf_counter() - begin
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": took, "mib": peak_mib - before, "requests": Counter(calls)}


def _counted(call: Callable[..., Any], kind: str, calls: list[str]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(kind)
        return call(*args, **kwargs)

    return counted


def main() -> None:
    if sys.argv[1:]:
        print(json.dumps(_measured(sys.argv[1])))
        return
    with tempfile.TemporaryDirectory(prefix="sparklog-restores-") as name:
        restores(Path(name))


if __name__ == "__main__":
    main()
