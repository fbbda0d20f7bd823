"""Processes that append to one cluster as fast as they can, side by side, and the answers that each got.

Does not import pytest, because it is also loaded in processes of its own.
"""

from __future__ import annotations

import multiprocessing
import os
from functools import partial
from typing import Any

import pyarrow as pa

import sparklog

Told = list[tuple[int, int, int]]  # of each append: partition, start, end
_WAIT_S = 240  # so that a dead process fails the test instead of hanging it


def race(root: str, processes: int, appends: int, partitions: int) -> dict[str, Told]:
    """Let all begin at once, each with this many appends. Returns the answers they got, by name."""
    context = multiprocessing.get_context("forkserver")  # its server imports once, and starts no thread
    context.set_forkserver_preload(["tests.kit.pandas_hidden", __name__, "s3fs", "hdfs_native"])
    names = [f"w{number}" for number in range(processes)]
    with context.Manager() as shared:
        begin = shared.Barrier(processes)
        with context.Pool(processes) as pool:
            run = partial(_append, root, dict(os.environ), begin, appends, partitions)
            told = pool.map_async(run, names, chunksize=1).get(_WAIT_S)
    return dict(zip(names, told, strict=True))


def _append(root: str, environment: dict[str, str], begin: Any, appends: int, partitions: int, name: str) -> Told:
    os.environ.update(environment)  # how to reach the store; the server has the environment of its own start
    told: Told = []
    with sparklog.connect(root) as cluster:
        begin.wait(_WAIT_S)
        for number in range(appends):
            rows = pa.table(
                {
                    "value": [f"{name}-{number}-{record}" for record in range(number % 3 + 1)],
                    "partition": pa.array([number % partitions] * (number % 3 + 1), pa.int32()),
                }
            )
            (written,) = cluster.append("race", rows).ranges
            told.append((written.partition, written.start, written.end))
    return told
