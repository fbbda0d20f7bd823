"""However a run of pytest ends, no server and no temporary file of its tests stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.hadoop import hadoop_jars
from tests.servers.held_servers import FOLDER, STARTED
from tests.servers.leftovers import VARIABLE, marked
from tests.servers.made_once import CannotFetch
from tests.servers.s3_servers import s3proxy_jar

PROJECT = Path(__file__).parents[2]
LONG_S = 60  # pytest-xdist gives its workers ten seconds, on a slow machine more
POLL_S = 0.05

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no watcher on this system")


@contextmanager
def pytest_holding(test: str, folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str, set[int]]]:
    """A run of pytest whose test holds its servers: the process, the mark of all that it started, and the servers."""
    mark, said = f"{os.environ[VARIABLE]}/{uuid.uuid4().hex}", folder / "said"
    with said.open("wb") as output:
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *arguments, f"tests/servers/held_servers.py::{test}"],
            cwd=PROJECT,
            env=os.environ | {VARIABLE: mark, FOLDER: str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        while not (started := folder / STARTED).exists():
            assert run.poll() is None, said.read_text()
            time.sleep(POLL_S)
        yield run, mark, {int(pid) for pid in started.read_text().split()}
    finally:
        run.kill()
        run.wait()


def wait_until_none_is_left(mark: str) -> None:
    deadline = time.monotonic() + LONG_S
    while left := marked(mark):
        assert time.monotonic() < deadline, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
        time.sleep(POLL_S)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_server_ends_with_a_killed_run(workers: int, tmp_path: Path) -> None:
    with pytest_holding("test_one", tmp_path, "-n", str(workers)) as (run, mark, servers):
        assert {run.pid} | servers <= {*marked(mark)}
        assert len(servers) == 1
        run.kill()
        wait_until_none_is_left(mark)


def test_a_server_ends_with_its_worker(tmp_path: Path) -> None:
    with pytest_holding("test_one", tmp_path, "-n", "1", "--max-worker-restart", "0") as (run, mark, servers):
        (worker,) = {*marked(mark)} - {run.pid} - servers
        os.kill(worker, signal.SIGKILL)
        wait_until_none_is_left(mark)
        assert run.wait() == 1


def test_temporary_files_end_with_a_killed_run() -> None:
    program = """if True:
        import os, signal, tempfile
        from tests.servers.leftovers import begin_watching

        begin_watching()
        print(tempfile.mkdtemp(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    outermost = {name: value for name, value in os.environ.items() if name != VARIABLE}
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, env=outermost, stdout=subprocess.PIPE, text=True, check=False
    )
    of_the_run = Path(run.stdout.strip()).parent
    assert of_the_run.parent == Path(tempfile.gettempdir())
    deadline = time.monotonic() + LONG_S
    while of_the_run.exists():
        assert time.monotonic() < deadline, [*of_the_run.iterdir()]
        time.sleep(POLL_S)


@pytest.mark.slow
def test_s3_hdfs_and_moto_end_with_an_interrupted_run(tmp_path: Path) -> None:
    try:
        hadoop_jars(), s3proxy_jar()
    except CannotFetch as error:
        pytest.skip(str(error))
    with pytest_holding("test_all", tmp_path, "-n", "1") as (run, mark, servers):
        assert servers < {*marked(mark)}
        assert len(servers) == 5
        run.send_signal(signal.SIGINT)  # to it alone: a terminal would send it to the servers, too
        wait_until_none_is_left(mark)
        assert run.wait() == pytest.ExitCode.INTERRUPTED
