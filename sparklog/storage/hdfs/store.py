"""A store in a directory of HDFS.

    <root>/<key>              the objects
    <root>/.tmp/<32 hex>      unpublished uploads

put-if-absent: create a temporary file with a unique name -> write -> close -> rename it to the key without overwriting.
The name node alone decides: it refuses the rename if the name is taken. A writer that dies leaves a temporary file,
open or closed, which blocks no other writer. Whenever it dies, the key is absent or its object is whole.

An object that was put is durable: it survives the loss of power. This means:

- every data node of the file's pipeline has synced its blocks to disk (hdfs-native asks for that with the last packet
  of each block);
- the name node counts each block as complete, that is, on at least dfs.namenode.replication.min data nodes;
- the name node has synced the rename to its own journal.

Set dfs.replication=3 and dfs.namenode.replication.min=2 if a data node and its disk may be lost at the same moment. Set
dfs.namenode.file.close.num-committed-allowed=1: without it, a close often takes half a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from sparklog.core.errors import Damaged, InvalidInput, KeyNotFound, SparklogError, StoreAccessDenied, StoreUnavailable
from sparklog.core.names.address_parts import parse_hdfs_url
from sparklog.host.deadline import Deadline
from sparklog.storage.folders import first_after
from sparklog.storage.hdfs.client import CallFailed, HdfsAddress, HdfsCalls, HdfsFailure
from sparklog.storage.hdfs.upload import HdfsUpload, write_error
from sparklog.storage.keys import check_key, check_prefix, is_key_part
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey
from sparklog.storage.parallel import delete_each

if TYPE_CHECKING:
    from hdfs_native import FileReader, FileStatus

_READ_BYTES: Final = 4 << 20  # size of one read; larger ranges are read in parts of this size, several at once


class HdfsStore:
    """Objects as files under one directory. The first write creates the directory.

    `settings` may have `timeout_ms`, `user`, and any key of Hadoop's configuration (dfs.*, fs.*, hadoop.*).
    `timeout_ms` is the time for one call of a method; it gets about a second more for each MiB that it moves. `user` is
    the HADOOP_USER_NAME of the whole process. High availability and Kerberos are configured by core-site.xml and
    hdfs-site.xml in HADOOP_CONF_DIR.

    Keys are paths, so `a` and `a/b` can't both have an object: writing the second one raises InvalidInput.
    """

    url: str
    read_ahead: int = 2

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        authority, self._root = parse_hdfs_url(url)
        self.url = f"hdfs://{authority}{self._root or '/'}"
        self._address = HdfsAddress.parse(authority, settings)
        self._calls = HdfsCalls(self._address)

    def __repr__(self) -> str:
        return f"HdfsStore({self.url!r})"

    def put_if_absent(self, key: str, body: Bytes) -> None:
        """Write a whole object, durably, if `key` is free. Errors: see ObjectStore."""
        with self.upload(key) as upload:
            upload.publish_whole(body)

    def upload(self, key: str) -> HdfsUpload:
        """Begin a put-if-absent with a streamed body. Nothing is created before the first `write`."""
        return HdfsUpload(self._calls, self._address, self._path(key), f"{self._root}/.tmp")

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        """Always False: HDFS cannot copy a file by itself. See ObjectStore."""
        return False

    def get(self, key: str) -> memoryview:
        """The whole object. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        deadline = self._address.deadline()
        reader = self._open(key, deadline)
        if len(reader) == 0 and self._status(key, deadline).length:
            raise StoreUnavailable(f"wanted to read {self._named(key)}, found that its writer has not closed it")
        return self._read(key, reader, [(0, len(reader))])[0]

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        """As `get`. Does not look for `others`: no disk can be mounted over a path of HDFS. See ObjectStore."""
        return self.get(key)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes [start, end) of each range, several read at the same time. See ObjectStore."""
        for start, end in ranges:
            if not 0 <= start <= end:
                raise InvalidInput(f"a range of bytes needs 0 <= start <= end, not [{start}, {end}) of {key}")
        reader = self._open(key, self._address.deadline())
        for start, end in ranges:
            if end > len(reader):
                raise Damaged(
                    f"wanted bytes [{start}, {end}) of {self._named(key)}, found that it ends at byte {len(reader)}"
                )
        return self._read(key, reader, ranges)

    def size(self, key: str) -> int:
        """Length in bytes. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        return self._status(key, self._address.deadline()).length

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        """All objects whose key begins with `prefix`, in ascending order of key, one directory in memory at a time.

        Objects that come or go meanwhile may or may not appear. Files whose names are not keys are left out.
        """
        folder, slash, begin = check_prefix(prefix).rpartition("/")
        return self._walk(f"{folder}{slash}", begin)

    def first_key_after(self, prefix: str, key: str) -> str | None:
        """Return the smallest key > `key` that begins with `prefix`, or None. `prefix` ends with '/'.

        Lists the directories that lead to that key, and empty ones before it: for an entry of the chain, the directory
        of all blocks and then one block. If `key` was the last in its directory, lists that directory too.
        """
        if not check_prefix(prefix).endswith("/"):
            raise InvalidInput(f"first_key_after takes a prefix that ends with '/', not {prefix!r}")
        return first_after(lambda folder: [name for name, _ in self._entries(folder)], prefix, key)

    def delete(self, key: str) -> None:
        """Remove one object by its exact key. An absent key is not an error. Errors: see ObjectStore.

        A directory at this path is not an object; HDFS removes it only if it is empty.
        """
        path, deadline = self._path(key), self._address.deadline()
        try:
            self._calls.call(lambda client: client.delete(path, recursive=False), deadline)
        except CallFailed as failed:
            if failed.kind in (
                HdfsFailure.ABSENT,
                HdfsFailure.NOT_A_FOLDER,
                HdfsFailure.NOT_EMPTY,
            ) or self._is_below_a_file(failed, path):
                return
            raise write_error(f"delete {self._named(key)}", failed) from failed

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects by their exact keys, several at a time: HDFS has no call for many. Errors: see ObjectStore."""
        delete_each(self, [check_key(key) for key in keys])

    def free_bytes(self) -> int | None:
        """None: HDFS does not report the free space of disks and quotas."""
        return None

    def remove_abandoned(self, before_ms: int) -> int:
        """Remove the temporary files last modified before `before_ms` (ms since the epoch). Return their number.

        If a file belongs to an open upload, the `publish` of that upload raises StoreUnavailable.
        """
        removed = 0
        for file in self._listed(f"{self._root}/.tmp"):
            path = f"{self._root}/.tmp/{_name(file)}"
            if file.isdir or file.modification_time >= before_ms:
                continue
            try:
                removed += self._calls.call(
                    lambda client, path=path: client.delete(path, recursive=False),  # type: ignore[misc]
                    self._address.deadline(),
                )
            except CallFailed as failed:
                raise write_error(f"remove the abandoned upload {path}", failed) from failed
        return removed

    # ---- reading --------------------------------------------------------------------------------

    def _open(self, key: str, deadline: Deadline) -> FileReader:
        path = self._path(key)
        try:
            return self._calls.call(lambda client: client.read(path), deadline)
        except CallFailed as failed:
            raise self._read_error(key, failed) from failed

    def _status(self, key: str, deadline: Deadline) -> FileStatus:
        path = self._path(key)
        try:
            status = self._calls.call(lambda client: client.get_file_info(path), deadline)
        except CallFailed as failed:
            raise self._read_error(key, failed) from failed
        if status.isdir:
            raise self._absent(key)
        return status

    def _read(self, key: str, reader: FileReader, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes of `ranges`, which must all lie within the file."""
        parts = [
            (number, begin, min(begin + _READ_BYTES, end))
            for number, (start, end) in enumerate(ranges)
            for begin in range(start, end, _READ_BYTES)
        ]
        deadline = self._address.deadline(sum(end - begin for _, begin, end in parts))
        try:
            read = self._calls.read(
                [partial(reader.read_range, begin, end - begin) for _, begin, end in parts], deadline
            )
        except CallFailed as failed:
            raise self._read_error(key, failed) from failed
        bodies: list[list[bytes]] = [[] for _ in ranges]
        for (number, begin, end), body in zip(parts, read, strict=True):
            if len(body) != end - begin:
                raise StoreUnavailable(
                    f"wanted bytes [{begin}, {end}) of {self._named(key)}, found {len(body)} bytes instead"
                )
            bodies[number].append(body)
        return [memoryview(body[0] if len(body) == 1 else b"".join(body)) for body in bodies]

    def _read_error(self, key: str, failed: CallFailed) -> SparklogError:
        if failed.kind in (HdfsFailure.ABSENT, HdfsFailure.NOT_A_FOLDER) or self._is_below_a_file(
            failed, self._path(key)
        ):
            return self._absent(key)
        return self._unavailable(f"read {self._named(key)}", failed)

    def _unavailable(self, wanted: str, failed: CallFailed) -> SparklogError:
        message = f"wanted to {wanted}, found: {failed.reason}"
        return StoreAccessDenied(message) if failed.kind is HdfsFailure.DENIED else StoreUnavailable(message)

    def _absent(self, key: str) -> KeyNotFound:
        return KeyNotFound(f"wanted {key}, found nothing at {self._named(key)}")

    def _is_below_a_file(self, failed: CallFailed, path: str) -> bool:
        """True if the name node answered "denied" only because a part of `path` is a file."""
        if failed.kind is not HdfsFailure.DENIED:
            return False
        try:
            self._calls.call(lambda client: client.get_file_info(path), self._address.deadline())
        except CallFailed as answer:
            return answer.kind is HdfsFailure.ABSENT
        return False

    # ---- listing --------------------------------------------------------------------------------

    def _listed(self, path: str) -> list[FileStatus]:
        """The contents of a directory; empty if the path is not a directory."""
        try:
            listed = self._calls.call(lambda client: list(client.list_status(path or "/")), self._address.deadline())
        except CallFailed as failed:
            if failed.kind in (HdfsFailure.ABSENT, HdfsFailure.NOT_A_FOLDER) or self._is_below_a_file(failed, path):
                return []
            raise self._unavailable(f"list hdfs://{self._address.authority}{path}", failed) from failed
        return [status for status in listed if status.path != path]  # a file lists itself

    def _entries(self, folder: str) -> list[tuple[str, FileStatus]]:
        """Return the names and statuses in a folder of keys ('' or ending with '/'), in the order of keys.

        Names of directories end with '/', and are sorted with it. This gives the order of whole keys, including those
        in subfolders: `a-b` < `a/b`, although `a` < `a-b`.
        """
        path = f"{self._root}/{folder}".rstrip("/")
        listed = [(_name(status), status) for status in self._listed(path)]
        return sorted(
            ((f"{name}/" if status.isdir else name, status) for name, status in listed if is_key_part(name)),
            key=lambda entry: entry[0],
        )

    def _walk(self, folder: str, begin: str) -> Iterator[StoredKey]:
        for name, status in self._entries(folder):
            if not name.startswith(begin):
                continue
            if status.isdir:
                yield from self._walk(folder + name, "")
            else:
                yield StoredKey(folder + name, status.length, status.modification_time)

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _named(self, key: str) -> str:
        return f"hdfs://{self._address.authority}{self._path(key)}"


def _name(status: FileStatus) -> str:
    return status.path.rpartition("/")[2]
