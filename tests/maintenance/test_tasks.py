"""The heavy part of a job in this process."""

from __future__ import annotations

from sparklog.maintenance.tasks import LocalTasks


def test_tasks_run_here_in_order() -> None:
    assert LocalTasks().run(lambda payload: payload * 2, [b"a", b"b"]) == [b"aa", b"bb"]
