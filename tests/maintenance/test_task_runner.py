"""The heavy part of a job in this process."""

from __future__ import annotations

import pytest

from sparklog.maintenance.task_runner import LocalTasks, packs


def test_tasks_run_here_in_order() -> None:
    assert LocalTasks().run(lambda payload: payload * 2, [b"a", b"b"]) == [b"aa", b"bb"]


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        ("", []),
        ("a", ["a"]),
        ("aaaaa", ["aaa", "aa"]),  # at most three
        ("bbb", ["bb", "b"]),  # of at most five together
        ("azab", ["a", "z", "ab"]),  # what is too large is alone
    ],
)
def test_items_share_a_task_in_order_within_every_limit(items: str, wanted: list[str]) -> None:
    sizes = {"a": 1, "b": 2, "z": 9}
    packed = packs(items, (lambda item: sizes[item], 5), (lambda _: 1, 3))
    assert ["".join(pack) for pack in packed] == wanted
