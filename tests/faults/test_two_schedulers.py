"""Two schedulers that do not know of each other run all jobs at the same time, beside a writer and deletions."""

from __future__ import annotations

from pathlib import Path

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.host.clock import now_ms
from sparklog.maintenance.jobs import SCHEDULED
from tests.faults.scheduled_rounds import two_schedulers
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog

OLD_MS = 30 * DAY_MS


# M: R-06 R-05 S-09
def test_two_schedulers_at_once_do_no_harm(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/cluster"
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        log = MaintainedLog(cluster)
        log.clock.at_ms = now_ms()
        log.topic(
            "t", 2, retention_ms=DAY_MS, segment_bytes=2_000, segment_ms=1, file_delete_delay_ms=0,
            rewrite_delete_delay_ms=0,
        )  # fmt: skip
        for partition, age_ms in ((0, OLD_MS), (1, OLD_MS), (0, 0), (1, 0)):
            for _ in range(3):
                log.append("t", partition, 8, timestamp_ms=log.clock.at_ms - age_ms)
        with two_schedulers(url) as schedulers:
            writes = 0
            while any(scheduler.poll() is None for scheduler in schedulers):
                writes += 1
                log.append("t", writes % 2, 5, timestamp_ms=log.clock.at_ms - OLD_MS * (writes % 3 == 0))
                cluster.delete_records("t", {writes % 2: log.log_start("t", writes % 2) + 1})
            said = [scheduler.communicate()[0] for scheduler in schedulers]
        assert [scheduler.returncode for scheduler in schedulers] == [0, 0], "\n".join(said)
        assert writes, "nothing was written beside them"
        log.check()
        assert min(log.log_start("t", 0), log.log_start("t", 1)) >= 24, "retention dropped what was old"
        assert set(cluster.connection.follower.catch_up().state.jobs) == set(SCHEDULED)
        log.clock.at_ms += DAY_MS
        for report in (log.retention(), log.vacuum(now_ms=log.clock.at_ms + OLD_MS)):
            assert report.exit_code == 0, report.to_json()
        log.check()
        assert log.stored() == log.named(), "nothing is left of what one of them uploaded in vain"
