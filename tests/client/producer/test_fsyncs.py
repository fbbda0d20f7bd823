"""What one acknowledged record costs on a disk, as docs/producer.md says."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster

PAGE = (Path(__file__).parents[3] / "docs" / "producer.md").read_text(encoding="utf-8")


def test_an_acknowledged_record_is_six_fsyncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three files and their directories; a directory of uploads is made when the first one comes into it."""
    init_cluster(f"file://{tmp_path}/cluster")
    synced: list[bool] = []
    fsync = os.fsync

    def counted(fd: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(fd).st_mode))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", counted)
    with sparklog.connect(f"{tmp_path}/cluster") as cluster:
        cluster.create_topic("t", partitions=1)
        with cluster.producer(linger_ms=0) as producer:
            for _ in range(3):
                producer.send("t", "before").result()  # the directory of the chain, and of uploads
            for _ in range(3):
                synced.clear()
                producer.send("t", "one").result()
                assert synced.count(False) == 3
                assert synced.count(True) in (3, 4)
    assert "On a disk these are six `fsync`s" in PAGE
