"""Runs a command with a store of its own: a test server that is started before it and stopped after it.

python -m tests.servers.run_with s3|gs|abfs|hdfs COMMAND …

The command finds the address in STORE, and what it needs to reach it in the usual variables (AWS_…, AZURE_STORAGE_…,
STORAGE_EMULATOR_HOST). What it writes is gone when it ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def server(kind: str) -> Iterator[dict[str, str]]:
    """The variables of a running server."""
    if kind == "s3":
        from tests.servers.s3_servers import s3proxy

        with s3proxy() as found:
            yield {**found.variables, "STORE": f"s3://{found.new_bucket()}"}
    elif kind == "hdfs":
        from tests.servers.hadoop import Hadoop

        with tempfile.TemporaryDirectory(prefix="sparklog-hdfs-") as folder, Hadoop(Path(folder)) as cluster:
            yield {"STORE": cluster.url}
    elif kind in ("gs", "abfs"):
        from tests.servers.cloud_servers import azurite, fake_gcs

        with (fake_gcs if kind == "gs" else azurite)() as emulator:
            yield {**emulator.variables, "STORE": emulator.new_url()}
    else:
        sys.exit(f"wanted s3, gs, abfs or hdfs, found {kind!r}")


def main() -> int:
    """The exit code of the command."""
    kind, *command = sys.argv[1:] or [""]
    print(f"starting a server for {kind} on this machine …", flush=True)
    with server(kind) as variables:
        return subprocess.run(command, env=os.environ | variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
