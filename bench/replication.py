"""The catch-up of a store by its agent, beside a plain copy of the same files that is as durable.

python -m bench.replication        prints a line per figure
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import google_crc32c

import sparklog
from bench.paired import Comparison, compared, interleaved, seconds
from sparklog.agent.run import AgentRun
from sparklog.client.bootstrap import init_cluster
from sparklog.core.commands import Append, PartitionEpoch, Submission
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    LeaderEpoch,
    NewObject,
    NewSlice,
    ObjectKind,
    PartitionIndex,
    StoreId,
    TopicId,
    UploadId,
)
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.local.store import LocalStore

OBJECTS, OBJECT_BYTES, INDEX_BYTES = 200, 8 << 20, 2_000
ROUNDS = 3
A, B = StoreId("a"), StoreId("b")


def catch_up(folder: Path, objects: int = OBJECTS, object_bytes: int = OBJECT_BYTES) -> list[Comparison]:
    """Store b lacks all of the objects on store a; both are directories of one disk."""
    root = folder / "replication"
    comparisons = []
    for fetchers in (1, 4):
        _write_log(root / "log", objects, object_bytes, fetchers)
        config = "defaults" if fetchers == 1 else f"num.replica.fetchers={fetchers}"
        what = f"an agent fetches {objects} objects of {object_bytes >> 20} MiB, local disk, {config}"
        ours, theirs = _Agent(root), _PlainCopy(root)

        def timed(run: Callable[[], object]) -> float:
            shutil.rmtree(root / "round", ignore_errors=True)
            shutil.copytree(root / "log", root / "round", copy_function=os.link)
            return seconds(run)

        took = interleaved({"ours": ours, "theirs": theirs}, timed, rounds=ROUNDS, warm_up=1)
        comparisons.append(compared(what, "copyfile + fsync", ">= 0.8", took["ours"], took["theirs"]))
        shutil.rmtree(root)
    return comparisons


class _Agent:
    def __init__(self, root: Path) -> None:
        self._url = str(root / "round")

    def __call__(self) -> None:
        with sparklog.connect(self._url) as cluster:
            AgentRun(cluster.connection, B, lambda note: None, once=True).run()


class _PlainCopy:
    """One file after the other, each made durable with its name, and new folders with theirs."""

    def __init__(self, root: Path) -> None:
        self._source, self._target = root / "round" / "a", root / "round" / "copied"

    def __call__(self) -> None:
        for path in sorted((self._source / "append").rglob("*.*")):
            to = self._target / path.relative_to(self._source)
            new = [folder for folder in to.parents if not folder.exists()]
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
            for name in (to, to.parent, *(folder.parent for folder in new)):
                fd = os.open(name, os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)


def _write_log(root: Path, objects: int, object_bytes: int, fetchers: int) -> None:
    """A log of random bytes: an agent looks into no object."""
    init_cluster(str(root), stores={"a": "a", "b": "b"}, config={"num.replica.fetchers": fetchers})
    store = LocalStore(str(root / "a"))
    with sparklog.connect(str(root)) as cluster:
        cluster.create_topic("t", assignment=[["a", "b"]])
        holder = Holder(A, cluster.connection.follower.state.stores[A].registration)
        for number in range(objects):
            body, index = os.urandom(object_bytes), os.urandom(INDEX_BYTES)
            named = NewObject(
                kind=ObjectKind.APPEND,
                n0=EntryNumber(1),
                upload_id=UploadId(os.urandom(16).hex()),
                topic_id=TopicId(1),
                size_bytes=object_bytes,
                crc32c=google_crc32c.value(body),
                index_size_bytes=INDEX_BYTES,
                index_crc32c=google_crc32c.value(index),
                holders=(holder,),
            )
            store.put_if_absent(data_key(named, "t"), body)
            store.put_if_absent(index_key(data_key(named, "t")), index)
            slice_ = NewSlice(
                object_index=0,
                topic_id=TopicId(1),
                partition=PartitionIndex(0),
                records=1,
                position=0,
                length=object_bytes,
                first_batch=0,
                batches=1,
                min_timestamp_us=number,
                max_timestamp_us=number,
            )
            epoch = PartitionEpoch(TopicId(1), PartitionIndex(0), LeaderEpoch(0))
            command_id = CommandId(os.urandom(16).hex())
            command = Append((named,), (slice_,), (epoch,))
            cluster.connection.committer.submit(Submission(command_id, EntryNumber(1), command))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        catch_up(Path(name))
