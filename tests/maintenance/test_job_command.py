"""Jobs as processes of their own: by a command without a shell, stopped with all that they started."""

from __future__ import annotations

import asyncio
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import InvalidInput
from sparklog.maintenance import job_command
from sparklog.maintenance.job_child import ABANDONED
from sparklog.maintenance.job_command import LOCAL, JobCommand, JobEnd, command_words
from sparklog.maintenance.job_report import DeletionResult, JobReport, PartitionResult, Work, WorkOutcome

CLUSTER = "file:///a b;exit 7"  # a shell would split it
REPORT = JobReport("roll", "c", False, 0, 1, 2, Work(), Work(3, 5, 700), 0, (), DeletionResult(), 0, (), 0)
ROW = PartitionResult("t-0", "t", 0, "why", Work(), outcome=WorkOutcome.FAILED, messages=("KEY_NOT_FOUND: gone",))


def python(code: str, *arguments: str) -> str:
    """A template that runs this code."""
    return shlex.join([sys.executable, "-c", code, *arguments])


def end_of(template: str, longest_run_ms: int = 60_000) -> JobEnd:
    return asyncio.run(JobCommand(CLUSTER, command_words(template), longest_run_ms).run("roll"))


@pytest.fixture
def reporting(tmp_path: Path) -> Callable[[JobReport, int], str]:
    """Templates that leave this report and exit with this code."""

    def template(report: JobReport, code: int) -> str:
        made = tmp_path / "made.json"
        made.write_text(report.to_json())
        leave = "import shutil, sys; shutil.copy(sys.argv[4], sys.argv[3]); sys.exit(int(sys.argv[5]))"
        return python(leave, "{job}", "{cluster}", "{report}", str(made), str(code))

    return template


def test_a_process_that_has_ended_before_it_is_told_anything_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    create = asyncio.create_subprocess_exec

    async def ended(*words: str, **given: Any) -> asyncio.subprocess.Process:
        process = await create(*words, **given)
        await process.wait()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", ended)
    command = JobCommand(
        CLUSTER, command_words(python("import sys; sys.exit('no such queue')", "{job}", "{cluster}")), 60_000
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        end = runner.run(command.run("roll"))
    assert end.error == "it ended with exit code 1 and without a report: no such queue"


def test_the_words_of_a_command_reach_the_process_as_they_are() -> None:
    code = "import sys; print(sys.argv[1:]); sys.exit(sys.argv[1:] != ['jobs/roll.py', '--cluster=file:///a b;exit 7'])"
    assert end_of(python(code, "jobs/{job}.py", "--cluster={cluster}")) == JobEnd()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spark-submit 'jobs/{job}.py {cluster}", "wanted words, maybe quoted, found no closing quotation"),
        ("", "wanted {job} in it, found none"),
        ("spark-submit jobs/{job}.py", "wanted {cluster} in it, found none"),
        ("{job} {cluster} {reprot}", "wanted {job}, {cluster}, {report}, found {reprot}"),
        ("{job} {cluster} {}", "wanted {job}, {cluster}, {report}, found {}"),
    ],
)
def test_a_command_that_could_not_work_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        command_words(text)
    assert message in refused.value.message


def test_the_report_is_read(reporting: Callable[[JobReport, int], str]) -> None:
    end = end_of(reporting(REPORT, 0))
    assert end == JobEnd(REPORT)
    assert (end.did_something, end.summary) == (False, "nothing was due")


def test_parts_that_failed_are_no_run_that_broke_off(reporting: Callable[[JobReport, int], str]) -> None:
    report = msgspec.structs.replace(REPORT, failed=1, partitions=(ROW,), exit_code=1)
    end = end_of(reporting(report, 1))
    assert (end.broke_off, end.error) == (False, "1 parts failed; t-0: KEY_NOT_FOUND: gone")
    assert end.report == report


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("print('one'); print('CODE: why'); raise SystemExit(1)", "exit code 1 and without a report: CODE: why"),
        ("pass", "exit code 0 and without a report"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9 and without a report"),
        ("print(10_000 * 'x')", f"exit code 0 and without a report: {job_command.LONGEST_ERROR * 'x'}"),
    ],
)
def test_a_run_without_a_report_broke_off(code: str, error: str) -> None:
    end = end_of(python(code, "{job}", "{cluster}", "{report}"))
    assert (end.report, end.broke_off) == (None, True)
    assert end.error is not None
    assert end.error.startswith(f"it ended with {error}"[: job_command.LONGEST_ERROR])
    assert len(end.error) <= job_command.LONGEST_ERROR + 1


def test_a_command_that_is_not_there_is_an_error_of_this_run() -> None:
    end = end_of("/no/such/{job} {cluster}")
    assert end == JobEnd(error="/no/such/roll can't be started: No such file or directory", broke_off=True)


# Its child ignores SIGTERM; both hold a connection to the test, which ends with them.
STUBBORN = """
import signal, socket, subprocess, sys
held = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
held.set_inheritable(True)
ignore = "import signal as s; s.signal(s.SIGTERM, s.SIG_IGN); s.alarm(60); print(flush=True); s.pause()"
child = subprocess.Popen([sys.executable, "-c", ignore], close_fds=False, stdout=subprocess.PIPE)
child.stdout.readline()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held.sendall(b"x")
signal.pause()
"""


def test_a_job_is_stopped_with_all_that_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_command, "GRACE_S", 0.1)

    async def run(listener: socket.socket) -> None:
        words = command_words(python(STUBBORN, str(listener.getsockname()[1]), "{job}", "{cluster}"))
        task = asyncio.create_task(JobCommand(CLUSTER, words).run("roll"))
        held, _ = await asyncio.to_thread(listener.accept)
        with held:
            assert held.recv(1) == b"x"
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            held.settimeout(30)
            assert held.recv(1) == b"", "something that it started is still there"

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(run(listener))


def test_a_job_that_is_cancelled_while_it_starts_is_stopped_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_command, "GRACE_S", 0.1)
    start, cancelled = asyncio.create_subprocess_exec, asyncio.Event()

    async def start_slowly(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*arguments, **options)
        await cancelled.wait()  # a busy machine may take its time before it tells the caller
        return process

    async def run(listener: socket.socket) -> None:
        words = command_words(python(STUBBORN, str(listener.getsockname()[1]), "{job}", "{cluster}"))
        task = asyncio.create_task(JobCommand(CLUSTER, words).run("roll"))
        held, _ = await asyncio.to_thread(listener.accept)
        with held:
            assert await asyncio.to_thread(held.recv, 1) == b"x"
            task.cancel()
            await asyncio.sleep(0)
            cancelled.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            held.settimeout(30)
            assert held.recv(1) == b"", "something that it started is still there"

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_slowly)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(run(listener))


def test_a_job_that_takes_too_long_is_stopped() -> None:
    end = end_of(python("import time; time.sleep(20)", "{job}", "{cluster}"), longest_run_ms=100)
    assert end == JobEnd(error="it took longer than 100 ms, and was stopped", broke_off=True)


READS_ITS_SETTINGS = """
import os, select, sys
line = os.read(0, 4096).decode() if select.select([0], [], [], float(sys.argv[1]))[0] else "none"
seen = open("/proc/self/cmdline").read() + open("/proc/self/environ").read()
print(line)
sys.exit(10 + (line != "none") + ("ses" "ame" in line) + 4 * ("ses" "ame" in seen))
"""


# M: N-05
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc on this machine")
def test_the_token_of_the_jobs_goes_through_a_pipe_and_only_to_those_of_this_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = StorageSettings(token="sesame")

    def run(wait_s: str, *, is_local: bool) -> str:
        words = (sys.executable, "-c", READS_ITS_SETTINGS, wait_s)
        if is_local:
            monkeypatch.setattr(job_command, "LOCAL", words)
        return str(asyncio.run(JobCommand(CLUSTER, words, settings=settings).run("roll")).error)

    assert run("0.2", is_local=False).startswith("it ended with exit code 10 and"), "not a byte"
    assert run("60", is_local=True).startswith("it ended with exit code 12 and")


def test_a_job_of_this_machine_runs_without_spark_and_its_run_is_in_the_chain(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/cluster"
    init_cluster(url)
    end = asyncio.run(JobCommand(url, LOCAL).run("retention"))
    assert (end.error, end.broke_off) == (None, False)
    assert end.report is not None
    with sparklog.connect(url) as cluster:
        assert set(cluster.connection.follower.state.jobs) == {"retention"}


def test_a_command_around_the_program_of_a_job_runs_it_with_settings_of_its_own(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/cluster"
    init_cluster(url)
    words = command_words(shlex.join(["env", *LOCAL]))
    end = asyncio.run(JobCommand(url, words, settings=StorageSettings(token="sesame")).run("retention"))
    assert (end.error, end.broke_off) == (None, False)


def test_an_error_of_the_job_reaches_the_schedule(tmp_path: Path) -> None:
    end = asyncio.run(JobCommand(f"file://{tmp_path}/none", LOCAL).run("roll"))
    assert end.broke_off
    assert end.error is not None
    assert "CLUSTER_NOT_FOUND" in end.error


def test_a_job_ends_with_whoever_began_it() -> None:
    words = [
        sys.executable,
        "-c",
        "import sparklog.maintenance.job_child as child, threading\n"
        "child.job_named = lambda name: lambda cluster, **options: threading.Event().wait(20)\n"
        "child.main(['roll', '', ''])",
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait() == ABANDONED
