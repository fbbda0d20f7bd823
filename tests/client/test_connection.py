"""The connection that all of a process share, and what a fork does to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparklog.client import connection
from sparklog.client.bootstrap import init_cluster
from tests.client.shared_connections import forget_shared

FOUND = 7


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_connects_though_another_thread_of_the_parent_was_connecting(tmp_path: Path) -> None:
    init_cluster(str(tmp_path))
    with connection._shared_lock:  # as another thread may hold it just then
        child = os.fork()
        if not child:
            can = connection._shared_lock.acquire(blocking=False)
            if can:
                connection._shared_lock.release()
                connection.shared(str(tmp_path))
            os._exit(FOUND if can else 1)
    forget_shared()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == FOUND
