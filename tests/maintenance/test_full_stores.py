"""A store that has no space left, or is read-only, from the middle of a job on: it is named, and nothing is lost."""

from __future__ import annotations

import io
import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.errors import SparklogError, StoreFull, StoreReadOnly
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.storage.memory import MemoryStore, MemoryUpload
from tests.faults import test_compaction_sigkill as compaction
from tests.faults import test_maintenance_sigkill as maintenance
from tests.faults import test_recovery_sigkill as recovery
from tests.faults.killed_maintenance import run
from tests.maintenance.damaged_log import damaged_log
from tests.maintenance.maintained_log import MaintainedLog

OLD_MS = maintenance.OLD_MS
_PUTS = ((MemoryStore, "put_if_absent"), (MemoryUpload, "write"), (MemoryUpload, "publish"))
_DELETES = ((MemoryStore, "delete"),)


@contextmanager
def refusing(error: SparklogError, url: str, step: int) -> Iterator[Callable[[], bool]]:
    """From the `step`-th change on, the stores whose address begins with `url` refuse all that need space; or, if they
    are read-only, deletions too. Whether that came.
    """
    seen = 0

    def refused(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(store: Any, *given: Any) -> Any:
            nonlocal seen
            if not getattr(store, "url", getattr(store, "_url", "")).startswith(url):
                return call(store, *given)
            seen += 1
            if seen > step:
                raise error
            return call(store, *given)

        return wrapper

    calls = _PUTS + _DELETES if isinstance(error, StoreReadOnly) else _PUTS
    with pytest.MonkeyPatch.context() as patch:
        for kind, name in calls:
            patch.setattr(kind, name, refused(getattr(kind, name)))
        yield lambda: seen > step


ERRORS = [
    pytest.param(StoreFull("wanted to write, found no space left"), id="full"),
    pytest.param(StoreReadOnly("wanted to write, found it read-only"), id="read-only", marks=pytest.mark.campaign),
]


@pytest.fixture
def every(request: pytest.FixtureRequest) -> int:
    """Refusals begin at every so many changes; with --campaign at each."""
    return 1 if request.config.getoption("--campaign") else 9


def outcome(job: Callable[[], int], error: SparklogError) -> int:
    """The exit code, as the command line has it. An error that stops the whole job is that of the store."""
    try:
        return job()
    except type(error):
        return 1


# M: R-06 S-09
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("job", maintenance.JOBS)
def test_a_job_whose_store_refuses_from_some_change_on_fails_and_the_next_run_does_the_rest(
    job: str, error: SparklogError, every: int
) -> None:
    for step in itertools.count(0, every):
        url = f"memory://{uuid.uuid4().hex}"
        init_cluster(url)
        with sparklog.connect(url) as cluster:
            log = MaintainedLog(cluster)
            maintenance.fill(log)
            with refusing(error, url, step) as came:
                code = outcome(lambda log=log: run(job, log.clock.at_ms, log.clock.at_ms + OLD_MS, log.url), error)
                log.check()
            assert code == came(), step
            log.check()
            assert log.live() <= log.stored()
            log.append("t", 0, 2)
            assert run(job, log.clock.at_ms, log.clock.at_ms + OLD_MS, url) == 0
            maintenance.clean(log)
        if not came():
            break
    assert step >= {"roll": 20, "retention": 5, "vacuum": 1}[job]


# M: C-05 R-06 S-09
@pytest.mark.parametrize("error", ERRORS)
def test_a_compaction_whose_store_refuses_from_some_change_on_fails_and_the_next_run_does_the_rest(
    error: SparklogError, every: int
) -> None:
    for step in itertools.count(0, every):
        url = f"memory://{uuid.uuid4().hex}"
        init_cluster(url)
        with sparklog.connect(url) as cluster:
            keyed = compaction.fill(MaintainedLog(cluster))
            clock_ms = keyed.log.clock.at_ms
            with refusing(error, url, step) as came:
                code = outcome(lambda at=clock_ms, url=url: run("compaction", at, at + OLD_MS, url), error)
                compaction.check(keyed)
            assert code == came(), step
            compaction.finish(keyed)
        if not came():
            break
    assert step > 5


# M: F-04
@pytest.mark.parametrize("error", ERRORS)
def test_a_recovery_of_a_store_that_refuses_from_some_change_on_fails_and_the_next_run_does_the_rest(
    error: SparklogError, every: int
) -> None:
    for step in itertools.count(0, every):
        log = damaged_log()
        recovery.damage(log)
        said = io.StringIO()
        with refusing(error, f"{log.url}-b", step) as came:
            report = run_recovery(log.url, console=said)
            recovery.readable(log)
        checkpoints_only = "its checkpoints were not written: " in said.getvalue()
        assert (report.exit_code == 1 or checkpoints_only) == came(), step
        recovery.recovered(log)
        log.world.cluster.close()
        if not came():
            break
    assert step > 3
