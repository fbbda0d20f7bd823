"""put-if-absent on HDFS: a temporary that is written, closed and renamed to its key. See `hdfs.py`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sparklog.core.errors import (
    InvalidInput,
    KeyExists,
    OutcomeUnknown,
    SparklogError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.core.readable import duration
from sparklog.host.deadline import Deadline, tries
from sparklog.host.dice import new_id
from sparklog.storage.hdfs.client import CallFailed, HdfsAddress, HdfsCalls, Kind
from sparklog.storage.object_store import Bytes

if TYPE_CHECKING:
    from hdfs_native import Client
    from hdfs_native._internal import RawFileWriter

_WRITE_BYTES: Final = 4 << 20  # of one call, so that each has a deadline it can keep
_TIDY_MS: Final = 2_000  # for taking away what `remove_abandoned` takes away as well
_HARMLESS_TRIES: Final = 3
_SETTLE_MS: Final = 5_000  # for finding out what became of a rename

# With these a call has surely changed nothing, and would not the next time either.
_REFUSED: Final = {Kind.NOT_A_FOLDER, Kind.DENIED, Kind.NOT_READY, Kind.QUOTA, Kind.UNREACHABLE, Kind.NOT_EMPTY}


class HdfsUpload:
    """A put-if-absent as a stream. One thread at a time."""

    def __init__(self, calls: HdfsCalls, address: HdfsAddress, path: str, temporaries: str) -> None:
        self._calls = calls
        self._address = address
        self._path = path
        self._temporaries = temporaries
        self._temporary: str | None = None
        self._writer: RawFileWriter | None = None
        self._written_bytes = 0
        self._whole: memoryview | None = None  # the body, where all of it is in hand
        self._closed = False  # or tried to
        self._ended = False

    def write(self, body: Bytes) -> None:
        """Add bytes to the end. Raises StoreFull, StoreReadOnly, StoreUnavailable; then only `abort` is legal."""
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
        """Make the whole object durable and visible under its key, if the key is absent. Errors: see the port."""
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
        """`write` and `publish` in one: with the whole body in hand more faults of data nodes are got over."""
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
        """Drop what was written. Legal at any time, also twice; after `publish` it does nothing."""
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
        """Make a temporary with `body` in it, another one if that fails: the name node goes on naming a data node
        that died until it has missed it for a while, and hdfs-native gives up with the first one it can't reach.
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
                if error.kind in _REFUSED - {Kind.UNREACHABLE} or error.kind is Kind.ABSENT:
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
            # Of anything but `bytes` hdfs-native takes one byte after the other, at a fifth of the speed.
            part = bytes(body[begin : begin + _WRITE_BYTES])
            self._calls.call(lambda _, part=part: writer.write(part), deadline)  # type: ignore[misc]
            self._written_bytes += len(part)

    def _close(self, deadline: Deadline) -> None:
        """Close the temporary, and wait until all of it can be read.

        A file that is closed may still lack its last block for a moment, and hdfs-native then reads it as shorter
        than it is, without an error. Under its key no object is ever seen like that.
        """
        writer, temporary = self._writer, self._temporary
        assert writer is not None
        assert temporary is not None
        self._closed = True
        self._calls.call(lambda _: writer.close(), deadline)
        for _ in tries(deadline):
            if self._calls.call(lambda client: len(client.read(temporary)), deadline) == self._written_bytes:
                return
        raise CallFailed(Kind.TIMEOUT, f"too few data nodes have its last block after {duration(deadline.timeout_ms)}")

    def _not_closed(self, failed: CallFailed) -> SparklogError:
        if failed.kind is Kind.ABSENT:
            return self._abandoned()
        return write_error(f"write {self._named()}", failed)

    def _drop_temporary(self) -> None:
        """What can't be removed now is what `remove_abandoned` is for."""
        writer, self._writer = self._writer, None
        temporary, self._temporary = self._temporary, None
        if temporary is None:
            return
        deadline = Deadline(min(_TIDY_MS, self._address.timeout_ms))
        if writer is not None and self._written_bytes and not self._closed:
            with suppress(CallFailed):  # its connections to data nodes would stay until the process ends
                self._calls.call(lambda _: writer.close(), deadline)
        with suppress(CallFailed):
            self._calls.call(lambda client: client.delete(temporary, recursive=False), deadline)

    # ---- the key --------------------------------------------------------------------------------

    def _rename(self, deadline: Deadline) -> None:
        """Give the temporary its name. Raises what `put_if_absent` raises."""
        temporary = self._temporary
        assert temporary is not None
        parent = self._path.rpartition("/")[0]
        for parent_is_made in (False, True):
            try:
                self._calls.call(lambda client: client.rename(temporary, self._path, overwrite=False), deadline)
            except CallFailed as failed:
                if failed.kind is Kind.EXISTS:
                    raise KeyExists(f"wanted to put {self._named()} if absent, found an object there") from failed
                if failed.kind is Kind.ABSENT and not parent_is_made:
                    self._make_folder(parent, deadline)
                    continue
                if failed.kind is Kind.ABSENT:
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
        """Find out whether a rename that failed has landed: return if so, raise otherwise.

        Deleting the temporary decides it. If it was there, the rename has not landed, and never will, even if
        its request still hangs somewhere. If it was not, the rename took it away, or `remove_abandoned` did: so what
        is under the key has to be what was written (of a stream, whose key nobody else writes, as long as that). The
        delete is sent only once: an answer that is lost leaves all open.
        """
        self._temporary = None
        deadline = Deadline(max(_SETTLE_MS, self._address.timeout_ms))
        unknown = f"wanted to publish {self._named()}, the rename answered: {failed.reason}"
        try:
            was_there = self._calls.call(lambda client: client.delete(temporary, recursive=False), deadline)
            if not was_there:
                found = self._is_written(deadline)
        except (CallFailed, SparklogError) as error:  # the latter if there is no client any more
            raise OutcomeUnknown(f"{unknown}; then: {error}") from error
        if was_there:
            if failed.kind is Kind.BROKEN and self._is_folder(deadline):
                raise InvalidInput(f"a key may not be the folder of other keys, found a directory at {self._named()}")
            raise StoreUnavailable(f"{unknown}; it was not carried out") from failed
        if not found:
            raise OutcomeUnknown(f"{unknown}; then another object was there") from failed

    def _is_written(self, deadline: Deadline) -> bool:
        """Whether what is under the key is what this upload wrote. Raises CallFailed."""
        found = self._calls.call(lambda client: client.get_file_info(self._path), deadline)
        if found.isdir or found.length != self._written_bytes:
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
    """Whether a call that does no harm twice is worth another try: a connection was lost."""
    return failed.kind is Kind.BROKEN and number < _HARMLESS_TRIES


def _create(client: Client, path: str) -> RawFileWriter:
    """Make a file, and its folder if need be.

    Not `client.create`: its writer closes itself when it is collected as garbage, in whichever thread that is, and
    with a name node that hangs for ever.
    """
    from hdfs_native import WriteOptions

    return client.inner.create(path, WriteOptions(overwrite=False, create_parent=True))


def write_error(wanted: str, failed: CallFailed) -> SparklogError:
    """The error for a change that has surely not landed."""
    message = f"wanted to {wanted}, found: {failed.reason}"
    match failed.kind:
        case Kind.QUOTA:
            return StoreFull(message)
        case Kind.DENIED:
            return StoreReadOnly(message)
        case Kind.NOT_A_FOLDER:
            return InvalidInput(f"{message}; a key may not continue another key")
        case Kind.UNREACHABLE:
            return StoreUnavailable(f"{message}; no name node or data node took the connection")
    return StoreUnavailable(message)
