"""A process that appends to one cluster as fast as it can, beside others.

    python -m tests.faults.racing_appends ROOT NAME COUNT PARTITIONS

Reads a line from stdin first, so that all begin at once. Prints, for each append, "partition start end".
"""

from __future__ import annotations

import sys

import pyarrow as pa

import sparklog


def main() -> None:
    root, name, count, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with sparklog.connect(root) as cluster:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            rows = pa.table(
                {
                    "value": [f"{name}-{number}-{record}" for record in range(number % 3 + 1)],
                    "partition": pa.array([number % partitions] * (number % 3 + 1), pa.int32()),
                }
            )
            (written,) = cluster.append("race", rows).ranges
            print(written.partition, written.start, written.end)


if __name__ == "__main__":
    main()
