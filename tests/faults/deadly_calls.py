"""Store calls at which a process dies: it kills itself (SIGKILL), or a test simulates its death in the test's process.

In memory, on a disk and on HDFS these are the calls of the port (`tests/storage/` covers deaths inside them). On S3
they are the requests that make up a call, and every upload is in parts, however small, so that a process can die
between its requests.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import pytest

from sparklog.storage.hdfs.store import HdfsStore
from sparklog.storage.hdfs.upload import HdfsUpload
from sparklog.storage.local.store import LocalStore
from sparklog.storage.local.upload import LocalUpload
from sparklog.storage.memory import MemoryStore, MemoryUpload
from sparklog.storage.object_store import Bytes, ObjectStore
from sparklog.storage.open_store import open_store
from sparklog.storage.s3.bucket import Bucket
from sparklog.storage.s3.store import S3Store
from sparklog.storage.s3.upload import S3Upload

Calls = tuple[tuple[type, str], ...]

_READS = ("get", "get_ranges", "size", "first_key_after", "list_keys")
_WRITES = ("put_if_absent", "upload")
_DELETES = ("delete", "remove_abandoned")
_OF_AN_UPLOAD = ("write", "publish", "abort")
_PORTS = {LocalStore: LocalUpload, HdfsStore: HdfsUpload, MemoryStore: MemoryUpload}
_REQUESTS: Calls = ((Bucket, "send_small"), (Bucket, "put_once_if_absent"), (Bucket, "read"), (Bucket, "send_part"))
_counting = threading.Lock()  # else one thread could die between another's step and its count
_READING_REQUESTS = ("head_object", "list_objects_v2", "list_multipart_uploads")


def every_call(url: str) -> Calls:
    """All the calls by which a commit uses the store at `url`. A call may be part of another one."""
    return _every_call(type(open_store(url)))


def _every_call(store: type) -> Calls:
    if store is S3Store:
        return (*_REQUESTS, (S3Store, "upload"))
    return _calls(store, (*_READS, *_WRITES)) + _calls(_PORTS[store], ("write", "publish"))


def every_change(url: str) -> Calls:
    """The calls that change the store. Being killed at a read is like being killed at the next change."""
    return _every_change(type(open_store(url)))


def _every_change(store: type) -> Calls:
    if store is S3Store:
        return tuple((kind, name) for kind, name in _REQUESTS if name != "read")
    put: Calls = () if store is LocalStore else ((store, "put_if_absent"),)  # a LocalStore's is write and publish
    return _calls(store, _DELETES) + _calls(_PORTS[store], ("write", "publish")) + put


class Died(BaseException):
    """A process dies at this store call: it does nothing more, and nobody hears from it."""


@dataclass
class Death:
    """The death of a simulated process: whether it has come, and how many calls the process began before it."""

    came: bool = False
    calls: int = 0

    def now(self) -> NoReturn:
        """Die now."""
        self.came = True
        raise Died


@contextmanager
def dying_at(url: str, calls: Calls, moment: str, step: int) -> Iterator[Death]:
    """Let whatever uses the store in memory at `url` inside the block die before or after the `step`-th of `calls`.

    It stays dead: every later call dies too, and an upload that was begun is not taken back.
    """
    store = type(open_store(url))
    assert store is MemoryStore, "elsewhere a process of its own is killed"
    death = Death()

    def counted() -> None:
        death.calls += 1

    def not_by_the_dead(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return death.now() if death.came else call(*args, **kwargs)

        return wrapper

    with pytest.MonkeyPatch.context() as patch:
        steps = itertools.count()
        for kind, name in calls:
            call = _deadly(getattr(kind, name), lambda: next(steps) == step, moment, death.now, counted)
            patch.setattr(kind, name, call)
        for kind, name in (*_calls(store, (*_READS, *_WRITES, *_DELETES)), *_calls(MemoryUpload, _OF_AN_UPLOAD)):
            patch.setattr(kind, name, not_by_the_dead(getattr(kind, name)))
        told = threading.excepthook
        patch.setattr(threading, "excepthook", lambda of: None if of.exc_type is Died else told(of))
        with suppress(Died):
            yield death


def kill_at(calls: Calls, moment: str, step: int, *, reads: bool, counted: Callable[[], object] = lambda: None) -> None:
    """Let the process die before or after the `step`-th of `calls` from now; reads count only with `reads`.

    `counted` is called for each call that the process begins.
    """
    steps = itertools.count()
    _upload_in_parts()
    _delete_one_by_one()

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def counts_not(name: str, *args: Any) -> bool:
        return not reads and name == "send_small" and args[1] in _READING_REQUESTS

    def counting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        deadly = _deadly(call, lambda: next(steps) == step, moment, kill, counted)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return (call if counts_not(name, *args) else deadly)(*args, **kwargs)

        return wrapper

    for kind, name in calls:
        setattr(kind, name, counting(name, getattr(kind, name)))


def before_each_call(come: Callable[[bool], object]) -> None:
    """Let `come` be called before each call of a store on disk, S3 or HDFS from now on: does the call change it?"""

    def announced(name: str, call: Callable[..., Any], changes: bool) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            come(changes and not (name == "send_small" and args[1] in _READING_REQUESTS))
            return call(*args, **kwargs)

        return wrapper

    _delete_one_by_one()
    for store in (LocalStore, HdfsStore, S3Store):
        changes = _every_change(store)
        for kind, name in dict.fromkeys((*_every_call(store), *changes)):
            setattr(kind, name, announced(name, getattr(kind, name), (kind, name) in changes))


def _deadly(
    call: Callable[..., Any],
    is_last: Callable[[], bool],
    moment: str,
    die: Callable[[], object],
    counted: Callable[[], object],
) -> Callable[..., Any]:
    """`call`, except that the last one ends with a death before or after it."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with _counting:
            last = is_last()
            if last and moment == "before":
                die()
            counted()
        try:
            return call(*args, **kwargs)
        finally:
            if last:
                die()

    return wrapper


def _upload_in_parts() -> None:
    """Let an upload to S3 begin as a large one does: with a request of its own; what it sends then is a part."""
    write = S3Upload.write

    def begin_and_write(self: S3Upload, body: Bytes) -> None:
        if self._upload_id is None:
            self._upload_id = self._begin()
        write(self, body)

    setattr(S3Upload, "write", begin_and_write)  # noqa: B010


def _delete_one_by_one() -> None:
    """Let many objects be deleted as by a store without bulk deletion, so that a process can die between two."""

    def one_by_one(store: ObjectStore, keys: Sequence[str]) -> None:
        for key in keys:
            store.delete(key)

    for kind in (LocalStore, HdfsStore, S3Store):
        setattr(kind, "delete_many", one_by_one)  # noqa: B010


def import_clients() -> None:
    """Import what each forked process would import again. This starts no thread, which a fork would lose."""
    import hdfs_native  # noqa: F401
    import s3fs  # noqa: F401


def _calls(kind: type, names: Sequence[str]) -> Calls:
    return tuple((kind, name) for name in names)
