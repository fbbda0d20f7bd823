"""The list of jobs: a line there is all that schedulers, commands and leaves need to agree on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from sparklog.cli.main import _commands
from sparklog.core.config.cluster_config import CLUSTER_KEYS, effective_cluster
from sparklog.core.decide import job_reports
from sparklog.core.errors import InvalidInput
from sparklog.core.maintenance.schedule import Task
from sparklog.maintenance import jobs
from sparklog.maintenance.job_command import JobCommand
from sparklog.maintenance.jobs import CHECK, JOBS, KNOWN_JOBS, SCHEDULED, KnownJob, job_named, tasks_every

ROOT = Path(__file__).parents[2]
MINUTE_MS, DAY_MS = 60_000, 86_400_000
ANOTHER = KnownJob("another", CHECK)


# M: N-06
@pytest.mark.parametrize("job", KNOWN_JOBS, ids=lambda job: job.name)
def test_a_job_of_the_list_has_a_verb_a_leaf_a_function_and_a_real_interval(job: KnownJob) -> None:
    assert job.name in _commands().commands["job"].commands
    assert (ROOT / "jobs" / f"{job.name}.py").is_file()
    assert callable(job_named(job.name))
    config = effective_cluster({})
    assert (job.interval_ms(config) is None) == (job.interval_key is None)
    assert job.interval_key is None or job.interval_key in CLUSTER_KEYS


def test_the_chain_takes_the_reports_of_each_job_that_has_a_leaf() -> None:
    leaves = {leaf.stem for leaf in (ROOT / "jobs").glob("*.py")}
    reported = set(job_reports.JOBS) - {"mirror-verify"}  # jobs/mirror.py --verify
    assert reported == leaves - {"produce"}, "produce writes records; its work is an append"
    assert reported == {*JOBS, "materialize", "mirror"}, "nobody schedules them without a topic"


# M: N-06
def test_a_line_in_the_list_is_all_that_schedulers_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "KNOWN_JOBS", (*KNOWN_JOBS, ANOTHER))
    assert jobs.scheduled_tasks(effective_cluster({}))[-1] == Task("another", 5 * MINUTE_MS)
    assert tuple(name for name in JOBS if name in SCHEDULED) == SCHEDULED


def test_jobs_that_are_too_heavy_for_every_minute_come_as_rarely_as_the_config_says() -> None:
    config = effective_cluster({})
    assert tasks_every(["roll", "vacuum"], MINUTE_MS, config, named=False) == [
        Task("roll", MINUTE_MS),
        Task("vacuum", DAY_MS),
    ]
    assert tasks_every(["vacuum"], 2 * DAY_MS, config, named=False) == [Task("vacuum", 2 * DAY_MS)]
    assert tasks_every(["vacuum"], MINUTE_MS, config, named=True) == [Task("vacuum", MINUTE_MS)]


def test_a_job_that_works_on_spark_only_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"compaction works on Spark, wanted pyspark in .* --job-command 'spark-sub"):
        job_named("compaction")
    assert callable(job_named("roll")), "the others need none"


def test_the_refusal_is_what_a_scheduler_says_of_the_run(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from sparklog.maintenance import job_child, jobs\n"
        "job_child._first_line = lambda: b'{}'\n"
        "jobs.find_spec = lambda name: None\n"
        "sys.exit(job_child.main(sys.argv[1:]))\n"
    )
    words = [sys.executable, "-c", code, "{job}", "{cluster}", "{report}"]
    end = asyncio.run(JobCommand(f"file://{tmp_path}/cluster", words).run("compaction"))
    assert (end.broke_off, end.error is not None) == (True, True)
    assert "INVALID_REQUEST: compaction works on Spark, wanted pyspark in " in str(end.error)
