"""put-if-absent on HDFS: a temporary file that is written, closed and renamed to its key. See `store.py`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sparklog.core.describe.readable import duration
from sparklog.core.errors import (
    MAKE_ROOM,
    InvalidInput,
    KeyExists,
    OutcomeUnknown,
    SparklogError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.host.deadline import Deadline, tries
from sparklog.host.dice import new_id
from sparklog.storage.hdfs.client import CallFailed, HdfsAddress, HdfsCalls, HdfsFailure
from sparklog.storage.object_store import Bytes

if TYPE_CHECKING:
    from hdfs_native import Client
    from hdfs_native._internal import RawFileWriter

_WRITE_BYTES: Final = 4 << 20  # size of one write, so that each call can meet its deadline
_TIDY_MS: Final = 2_000  # time for removing what `remove_abandoned` would remove anyway
_HARMLESS_TRIES: Final = 3
_SETTLE_MS: Final = 5_000  # time to learn the outcome of a rename

# After these failures a call has certainly changed nothing, and a repeat would not either.
_REFUSED: Final = {
    HdfsFailure.NOT_A_FOLDER,
    HdfsFailure.DENIED,
    HdfsFailure.NOT_READY,
    HdfsFailure.QUOTA,
    HdfsFailure.UNREACHABLE,
    HdfsFailure.NOT_EMPTY,
}


class HdfsUpload:
    """A put-if-absent with a streamed body. One thread at a time."""

    def __init__(self, calls: HdfsCalls, address: HdfsAddress, path: str, temporaries: str) -> None:
        self._calls = calls
        self._address = address
        self._path = path
        self._temporaries = temporaries
        self._temporary: str | None = None
        self._writer: RawFileWriter | None = None
        self._written_bytes = 0
        self._whole: memoryview | None = None  # the body, if `publish_whole` was given all of it
        self._closed = False  # true once a close was tried
        self._ended = False

    def write(self, body: Bytes) -> None:
        """Append bytes. Raises StoreFull, StoreReadOnly, StoreUnavailable; after an error only `abort` is legal."""
        whole = memoryview(body).cast("B")
        deadline = self._address.deadline(len(whole))
        try:
            if self._begun():
                self._append(whole, deadline)
            else:
                self._begin(whole, deadline)
        except CallFailed as failed:
            self.abort()
            raise write_error(f"write {self._named()}", failed) from failed

    def publish(self) -> None:
        """Make the whole object durable and visible under its key, if the key is free. Errors: see ObjectStore."""
        deadline = self._address.deadline()
        try:
            try:
                if self._begun():
                    self._close(deadline)
                else:
                    self._begin(memoryview(b""), deadline, close=True)
            except CallFailed as failed:
                raise self._not_closed(failed) from failed
            self._rename(deadline)
        finally:
            self.abort()

    def publish_whole(self, body: Bytes) -> None:
        """Write and publish the whole object: one call instead of `write` and `publish`. Raises their errors.

        If a data node fails, starts again with a new temporary file.
        """
        self._whole = whole = memoryview(body).cast("B")
        deadline = self._address.deadline(len(whole))
        try:
            try:
                self._begin(whole, deadline, close=True)
            except CallFailed as failed:
                raise self._not_closed(failed) from failed
            self._rename(deadline)
        finally:
            self.abort()

    def abort(self) -> None:
        """Discard the written bytes. Legal at any time and more than once; does nothing after `publish`."""
        self._ended = True
        self._drop_temporary()

    def __enter__(self) -> HdfsUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    # ---- the temporary --------------------------------------------------------------------------

    def _begun(self) -> bool:
        if self._ended:
            raise InvalidInput(f"the upload of {self._named()} has ended or failed: begin another one")
        return self._writer is not None

    def _begin(self, body: memoryview, deadline: Deadline, *, close: bool = False) -> None:
        """Create a temporary file with `body` in it, and close it if `close`. If that fails, try again with a new file.

        A new file helps if a data node is dead. The name node assigns this node until it notices the loss, and
        hdfs-native gives up at the first data node that it can't reach.
        """
        failed: CallFailed | None = None
        for number in tries(deadline):
            self._drop_temporary()
            try:
                self._create(deadline)
                self._append(body, deadline)
                if close:
                    self._close(deadline)
                return
            except CallFailed as error:
                failed = error
                if self._writer is None and not _may_repeat(error, number):
                    break
                if error.kind in _REFUSED - {HdfsFailure.UNREACHABLE} or error.kind is HdfsFailure.ABSENT:
                    break
        assert failed is not None
        raise failed

    def _create(self, deadline: Deadline) -> None:
        path = f"{self._temporaries}/{new_id()}"
        self._temporary = path
        self._written_bytes = 0
        self._closed = False
        self._writer = self._calls.call(lambda client: _create(client, path), deadline)

    def _append(self, body: memoryview, deadline: Deadline) -> None:
        writer = self._writer
        assert writer is not None
        for begin in range(0, len(body), _WRITE_BYTES):
            # hdfs-native copies any type but `bytes` byte by byte, at a fifth of the speed.
            part = bytes(body[begin : begin + _WRITE_BYTES])
            self._calls.call(lambda _, part=part: writer.write(part), deadline)  # type: ignore[misc]
            self._written_bytes += len(part)

    def _close(self, deadline: Deadline) -> None:
        """Close the temporary file, and wait until all of it is readable.

        A closed file may lack its last block for a moment; then hdfs-native returns fewer bytes, without an error.
        This wait ensures that an object under its key is always read in full.
        """
        writer, temporary = self._writer, self._temporary
        assert writer is not None
        assert temporary is not None
        self._closed = True
        self._calls.call(lambda _: writer.close(), deadline)
        for _ in tries(deadline):
            if self._calls.call(lambda client: len(client.read(temporary)), deadline) == self._written_bytes:
                return
        raise CallFailed(
            HdfsFailure.TIMEOUT, f"too few data nodes have its last block after {duration(deadline.timeout_ms)}"
        )

    def _not_closed(self, failed: CallFailed) -> SparklogError:
        if failed.kind is HdfsFailure.ABSENT:
            return self._abandoned()
        return write_error(f"write {self._named()}", failed)

    def _drop_temporary(self) -> None:
        """Remove the temporary file. `remove_abandoned` removes later what can't be removed now."""
        writer, self._writer = self._writer, None
        temporary, self._temporary = self._temporary, None
        if temporary is None:
            return
        deadline = Deadline(min(_TIDY_MS, self._address.timeout_ms))
        if writer is not None and self._written_bytes and not self._closed:
            with suppress(CallFailed):  # close it: else its connections to data nodes stay until the process ends
                self._calls.call(lambda _: writer.close(), deadline)
        with suppress(CallFailed):
            self._calls.call(lambda client: client.delete(temporary, recursive=False), deadline)

    # ---- the key --------------------------------------------------------------------------------

    def _rename(self, deadline: Deadline) -> None:
        """Rename the temporary file to the key. Raises the errors of `put_if_absent`."""
        temporary = self._temporary
        assert temporary is not None
        parent = self._path.rpartition("/")[0]
        for parent_is_made in (False, True):
            try:
                self._calls.call(lambda client: client.rename(temporary, self._path, overwrite=False), deadline)
            except CallFailed as failed:
                if failed.kind is HdfsFailure.EXISTS:
                    raise KeyExists(f"wanted to put {self._named()} if absent, found an object there") from failed
                if failed.kind is HdfsFailure.ABSENT and not parent_is_made:
                    self._make_folder(parent, deadline)
                    continue
                if failed.kind is HdfsFailure.ABSENT:
                    raise self._abandoned() from failed
                if failed.kind in _REFUSED:
                    raise write_error(f"write {self._named()}", failed) from failed
                self._settle(temporary, failed)
            self._temporary = None
            return

    def _make_folder(self, folder: str, deadline: Deadline) -> None:
        last: CallFailed | None = None
        for number in tries(deadline):
            try:
                return self._calls.call(lambda client: client.mkdirs(folder, create_parent=True), deadline)
            except CallFailed as failed:
                last = failed
                if not _may_repeat(failed, number):
                    break
        assert last is not None
        raise write_error(f"write {self._named()}", last) from last

    def _settle(self, temporary: str, failed: CallFailed) -> None:
        """Find out whether a failed rename has landed. Return if it has; otherwise raise.

        Deleting the temporary file decides it. If the file was there, the rename has not landed and never will, even if
        its request is still on its way: raises StoreUnavailable, or InvalidInput if a directory is under the key. If
        the file was not there, either the rename or `remove_abandoned` has removed it. Then the object under the key is
        compared with the written body: by content, or for a stream by length only, because no other writer uses a
        stream's key. Raises OutcomeUnknown if it differs, or if a call fails. The delete is sent only once: if its
        answer is lost, the outcome stays unknown.
        """
        self._temporary = None
        deadline = Deadline(max(_SETTLE_MS, self._address.timeout_ms))
        unknown = f"wanted to publish {self._named()}, the rename answered: {failed.reason}"
        try:
            was_there = self._calls.call(lambda client: client.delete(temporary, recursive=False), deadline)
            if not was_there:
                is_ours = self._is_written(deadline)
        except (CallFailed, SparklogError) as error:  # the latter if no client could be made
            raise OutcomeUnknown(f"{unknown}; then: {error}") from error
        if was_there:
            if failed.kind is HdfsFailure.BROKEN and self._is_folder(deadline):
                raise InvalidInput(f"a key may not be the folder of other keys, found a directory at {self._named()}")
            raise StoreUnavailable(f"{unknown}; it was not carried out") from failed
        if not is_ours:
            raise OutcomeUnknown(f"{unknown}; then another object was there") from failed

    def _is_written(self, deadline: Deadline) -> bool:
        """True if the object under the key is what this upload wrote. Raises CallFailed."""
        status = self._calls.call(lambda client: client.get_file_info(self._path), deadline)
        if status.isdir or status.length != self._written_bytes:
            return False
        if not self._whole:
            return True
        reader = self._calls.call(lambda client: client.read(self._path), deadline)
        return self._calls.read([reader.read], deadline)[0] == self._whole

    def _is_folder(self, deadline: Deadline) -> bool:
        with suppress(CallFailed):
            return self._calls.call(lambda client: client.get_file_info(self._path).isdir, deadline)
        return False

    def _abandoned(self) -> StoreUnavailable:
        return StoreUnavailable(f"wanted to publish {self._named()}, found that its temporary was removed as abandoned")

    def _named(self) -> str:
        return f"hdfs://{self._address.authority}{self._path}"


def _may_repeat(failed: CallFailed, number: int) -> bool:
    """True if a call that is safe to repeat should be tried again after its attempt `number` (from 1).

    It is repeated only if the connection broke, and attempted at most three times.
    """
    return failed.kind is HdfsFailure.BROKEN and number < _HARMLESS_TRIES


def _create(client: Client, path: str) -> RawFileWriter:
    """Create a file, and its folder if needed. Return its writer.

    `client.create` is not used: its writer closes itself when it is garbage-collected, in any thread. If the name node
    hangs, that thread then hangs forever.
    """
    from hdfs_native import WriteOptions

    return client.inner.create(path, WriteOptions(overwrite=False, create_parent=True))


def write_error(wanted: str, failed: CallFailed) -> SparklogError:
    """Return the error to raise if the change `wanted`, such as "delete a/b", failed.

    All these errors mean that nothing was written. A put whose outcome is unknown needs OutcomeUnknown instead. A
    delete may have been done: it is safe to repeat.
    """
    message = f"wanted to {wanted}, found: {failed.reason}"
    match failed.kind:
        case HdfsFailure.QUOTA:
            return StoreFull(f"{message}; {MAKE_ROOM}")
        case HdfsFailure.DENIED:
            return StoreReadOnly(message)
        case HdfsFailure.NOT_A_FOLDER:
            return InvalidInput(f"{message}; a key may not continue another key")
        case HdfsFailure.UNREACHABLE:
            return StoreUnavailable(f"{message}; no name node or data node accepted the connection")
    return StoreUnavailable(message)
