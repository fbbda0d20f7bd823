"""Calls of a store at which a process kills itself (SIGKILL).

On a disk and on HDFS they are the calls of the port (inside them: `tests/storage/`). On S3 they are the requests that
a call is made of, and every upload is one of parts, however small: so it can be killed between its requests.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from sparklog.storage.hdfs import HdfsStore
from sparklog.storage.hdfs_upload import HdfsUpload
from sparklog.storage.local import LocalStore
from sparklog.storage.local_upload import LocalUpload
from sparklog.storage.object_store import Bytes
from sparklog.storage.open_store import open_store
from sparklog.storage.s3 import S3Store
from sparklog.storage.s3_bucket import Bucket
from sparklog.storage.s3_upload import S3Upload

Calls = tuple[tuple[type, str], ...]

_READS = ("get", "get_ranges", "size", "first_key_after", "list_keys")
_WRITES = ("put_if_absent", "upload")
_DELETES = ("delete", "remove_abandoned")
_PORTS = {LocalStore: LocalUpload, HdfsStore: HdfsUpload}
_REQUESTS: Calls = ((Bucket, "control"), (Bucket, "bulk"), (Bucket, "read"), (Bucket, "send_part"))
_READING_REQUESTS = ("head_object", "list_objects_v2", "list_multipart_uploads")


def every_call(url: str) -> Calls:
    """All that a commit asks of the store at `url`. A call may be part of another one."""
    store = type(open_store(url))
    if store is S3Store:
        return (*_REQUESTS, (S3Store, "upload"))
    return _calls(store, (*_READS, *_WRITES)) + _calls(_PORTS[store], ("write", "publish"))


def every_change(url: str) -> Calls:
    """Reads are left out: they change nothing, so a kill at one leaves the store as a kill at the next change does."""
    store = type(open_store(url))
    if store is S3Store:
        return tuple((kind, name) for kind, name in _REQUESTS if name != "read")
    put: Calls = ((HdfsStore, "put_if_absent"),) if store is HdfsStore else ()  # a LocalStore's is write and publish
    return _calls(store, _DELETES) + _calls(_PORTS[store], ("write", "publish")) + put


def kill_at(calls: Calls, moment: str, step: int, *, reads: bool, counted: Callable[[], object] = lambda: None) -> None:
    """Let the process die before or after the `step`-th of `calls` from now; without `reads` these do not count.

    `counted` is called at each one that it lives to begin.
    """
    steps = itertools.count()
    _upload_in_parts()

    def deadly(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not reads and name == "control" and args[1] in _READING_REQUESTS:
                return call(*args, **kwargs)
            last = next(steps) == step
            if last and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            counted()
            try:
                return call(*args, **kwargs)
            finally:
                if last:
                    os.kill(os.getpid(), signal.SIGKILL)

        return wrapper

    for kind, name in calls:
        setattr(kind, name, deadly(name, getattr(kind, name)))


def _upload_in_parts() -> None:
    """Let an upload to S3 begin as a large one does: with a request, and what it sends then is a part."""
    write = S3Upload.write

    def begin_and_write(self: S3Upload, body: Bytes) -> None:
        if self._upload_id is None:
            self._upload_id = self._begin()
        write(self, body)

    setattr(S3Upload, "write", begin_and_write)  # noqa: B010


def import_clients() -> None:
    """Import what each forked process would import anew. That starts no thread: a fork would not take it along."""
    import hdfs_native  # noqa: F401
    import s3fs  # noqa: F401


def _calls(kind: type, names: Sequence[str]) -> Calls:
    return tuple((kind, name) for name in names)
