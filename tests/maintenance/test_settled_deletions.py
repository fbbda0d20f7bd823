"""Nothing is deleted by an entry that a restore would not know of: it gets its copies first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import sparklog
from sparklog.chain.commit.committer import Committer
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.mirror.mirrored_chain import last_mirrored
from sparklog.client.connection import Connection
from sparklog.core.access import Principal, check_access, need_of, parse_right
from sparklog.core.commands import Command, DeleteTopic
from sparklog.core.coordination import Author
from sparklog.core.records import CommandResult
from sparklog.host.clock import now_ms
from sparklog.maintenance import job_frame
from sparklog.maintenance.space import vacuum_job
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.storage.keys import append_key
from sparklog.storage.open_store import open_store
from tests.client.restoring.lost_cluster import LostCluster, append
from tests.kit.silent_console import SILENT


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LostCluster:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    return LostCluster(tmp_path, copies=1)


@pytest.mark.parametrize(
    ("run", "module", "task"),
    [(run_retention, job_frame, "_delete"), (run_vacuum, vacuum_job, "search_store")],
)
def test_what_an_entry_without_copies_gave_up_is_deleted_once_it_has_them(
    lost: LostCluster, run: object, module: object, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process dies between winning the slot of a topic's deletion and its copies; then a job deletes."""
    with sparklog.connect(lost.url) as cluster:
        append(cluster, "1")
        cluster.alter("t", config={"file.delete.delay.ms": 0})
        run_vacuum(lost.url, console=SILENT, now_ms=now_ms() + 30 * 86_400_000)  # so that FLOOR need not rise again
        follower = cluster.connection.follower
        state = follower.catch_up().state
        follower.mirrors = None
        committer = Committer(follower, Author("client", "dies"))
        deleted = committer.submit(committer.begin(DeleteTopic(state.topic_ids["t"])))
    store, chain_id = open_store(lost.stores["a"]), state.chain_id
    store.put_if_absent(append_key(0, "0" * 32), b"begun, and never committed")
    place = MirrorPlace(store, chain_id)
    assert last_mirrored(place) == deleted.n - 1
    original, copied = getattr(module, task), []

    def noted(payload: bytes) -> bytes:
        copied.append(last_mirrored(place))
        return original(payload)

    monkeypatch.setattr(module, task, noted)
    report = run(lost.url, console=SILENT)  # type: ignore[operator]
    assert report.exit_code == 0
    assert copied
    assert copied[-1] >= deleted.n


@pytest.mark.parametrize("run", [run_retention, run_vacuum])
def test_a_job_that_deletes_nothing_needs_no_right_on_the_cluster(
    lost: LostCluster, run: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator refuses what settles the state to those who may maintain one topic; here its rule does."""
    lost.append("1")
    job, submit = Principal("job", (parse_right("maintain:t"),)), Connection.submit

    def checked(connection: Connection, command: Command, *arguments: int) -> CommandResult:
        check_access(job, need_of(command), connection.follower.state)
        return submit(connection, command, *arguments)

    monkeypatch.setattr(Connection, "submit", checked)
    report = run(lost.url, topics=["t"], console=SILENT)  # type: ignore[operator]
    assert (report.exit_code, report.notes) == (0, ())
    assert not report.deletion.failed
