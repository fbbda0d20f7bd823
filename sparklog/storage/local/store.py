"""A store in a directory of this machine, or of a file system with hard links that every process mounts.

    <root>/<key>              the objects
    <root>/.tmp/<32 hex>      unpublished uploads
    <root>/.reserve           space reserved for commits (reserve.py)

put-if-absent: create a temporary file (O_EXCL) -> write -> fsync -> link it to the key -> fsync the directory -> unlink
the temporary file. `link` alone decides which writer wins: it fails if the name is taken. The name does not exist
before the link, so no reader ever sees part of an object, whenever the writer is killed. sparklog never removes a
directory.
"""

from __future__ import annotations

import mmap
import os
import shutil
import stat
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from urllib.parse import quote

from sparklog.core.errors import (
    Damaged,
    InvalidInput,
    KeyNotFound,
    SparklogError,
    StoreUnavailable,
)
from sparklog.core.names.address_parts import parse_file_url
from sparklog.storage.folders import first_after
from sparklog.storage.keys import check_key, check_prefix, is_key_part
from sparklog.storage.local.local_errors import ABSENT, read_error, write_error
from sparklog.storage.local.names import DurableNames, sync_folder
from sparklog.storage.local.reserve import Reserve
from sparklog.storage.local.upload import LocalUpload
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey

# Below this size, reading into memory is faster than a map with its page faults (measured: equal near 1 MiB).
_MAP_FROM_BYTES = 1 << 20
# Each map holds a file descriptor, and a process often has only 1,024. Beyond this number of maps, reads are copied.
_MOST_MAPS = 256
_maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def local_path(url_or_path: str) -> str:
    """The absolute path of a `file:` URL or of a bare path, which may be relative or begin with ~.

    Links are not resolved. %xx is decoded in URLs only. Raises InvalidInput for a URL with another host or a relative
    path, and for a path that is not UTF-8: its bytes have no spelling that Java and Python decode alike.
    """
    path = url_or_path
    if url_or_path[:5].lower() == "file:":
        path = parse_file_url(url_or_path)
    elif path.startswith("~"):
        path = os.path.expanduser(path)
        if path.startswith("~"):
            raise InvalidInput(f"a path that begins with ~ names a user of this machine, not {url_or_path!r}")
    if not path or "\0" in path:
        raise InvalidInput(f"a path is not empty and has no zero byte, not {url_or_path!r}")
    try:
        path.encode()
    except UnicodeEncodeError as error:  # Python has a surrogate for each byte that it couldn't decode
        raise InvalidInput(f"a path is UTF-8, not {url_or_path!r}") from error
    absolute = os.path.abspath(path)
    return f"/{absolute.lstrip('/')}"  # POSIX lets abspath keep two leading slashes


class LocalStore:
    """Objects as files under one directory. The first write creates the directory.

    Keys are paths, so `a` and `a/b` can't both have an object: writing the second one raises InvalidInput.
    """

    url: str
    read_ahead: int = 0

    def __init__(self, url_or_path: str) -> None:
        self._root = local_path(url_or_path)
        self.url = f"file://{quote(self._root)}"
        self._names = DurableNames(self._root)
        self.reserve = Reserve(self._root)

    def __repr__(self) -> str:
        return f"LocalStore({self.url!r})"

    def keep_to(self, folder: str, newest: Callable[[], str]) -> None:
        """From now on, refuse to work in a directory that is not this store's, because its disk is not mounted.

        A mount point without its disk is another directory: empty, or with leftovers or an older copy of the store.
        Objects put there would be lost once the disk is mounted again. The right directory has `folder`, and the object
        whose key `newest` returns: one that must exist at the time of a write. In a wrong directory, writes and reads
        of absent keys raise StoreUnavailable.
        """
        self._names.landmark, self._names.newest = check_prefix(folder).rstrip("/"), newest

    def put_if_absent(self, key: str, body: Bytes) -> None:
        """Write a whole object, durably, if `key` is free. Errors: see ObjectStore.

        If it raises KeyExists, the object that is already there is durable too.
        """
        with self.upload(key) as upload:
            upload.write(body)
            upload.publish()

    def upload(self, key: str) -> LocalUpload:
        """Begin a put-if-absent with a streamed body. Nothing is created before the first `write`."""
        return LocalUpload(self._names, self._path(key))

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        """Copy an object of another LocalStore to `key` in the kernel, if `key` is free. See ObjectStore.

        Return False if the kernel can't do it, or `source` is another kind of store.
        """
        if not isinstance(source, LocalStore) or not hasattr(os, "copy_file_range"):
            return False
        size_bytes = source.size(source_key)
        try:
            fd = os.open(source._path(source_key), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise source._read_error(source_key, error) from error
        try:
            with self.upload(key) as upload:
                if not upload.copy(fd, size_bytes):
                    return False
                upload.publish()
        finally:
            os.close(fd)
        return True

    def get(self, key: str) -> memoryview:
        """The whole object, read-only: mapped, or copied if it is small.

        A map costs no copy and stays valid after a delete. It holds a file descriptor until it is dropped, so a process
        has at most `_MOST_MAPS` at once; beyond that the bytes are copied. Truncating a mapped file kills the process
        (SIGBUS): docs/stores.md says when. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied.
        """
        return self._read(key, None)[0]

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        """Return the object under `key`, if the store's directory still has the keys `others`. See ObjectStore.

        All keys are looked up below one open descriptor, because the directory's path may lead elsewhere at each use.
        The descriptor is closed at the end of this call: an open one keeps the disk from being unmounted.
        """
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._read_error(key, error) from error
        try:
            for other in others:  # checked first: an absent key proves something only about the place that has them
                try:
                    os.stat(check_key(other), dir_fd=root)
                except ABSENT as error:
                    raise StoreUnavailable(
                        f"wanted {other} beside {key} in {self._root}, found it elsewhere: a disk was mounted or "
                        "unmounted since it was written"
                    ) from error
                except OSError as error:
                    raise self._read_error(other, error) from error
            return self._read(key, None, root)[0]
        finally:
            os.close(root)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes [start, end) of each range: slices of one map, or copies (see `get`). See ObjectStore."""
        for start, end in ranges:
            if not 0 <= start <= end:
                raise InvalidInput(f"a range of bytes needs 0 <= start <= end, not [{start}, {end}) of {key}")
        return self._read(key, ranges)

    def size(self, key: str) -> int:
        """Length in bytes. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        path = self._path(key)
        try:
            status = os.stat(path)
        except OSError as error:
            raise self._read_error(key, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise self._absent(key)
        return status.st_size

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        """All objects whose key begins with `prefix`, in ascending order of key, one directory in memory at a time.

        Objects that come or go meanwhile may or may not appear. Files whose names are not keys are left out.
        """
        folder, slash, begin = check_prefix(prefix).rpartition("/")
        return self._walk(f"{folder}{slash}", begin)

    def first_key_after(self, prefix: str, key: str) -> str | None:
        """Return the smallest key > `key` that begins with `prefix`, or None. `prefix` ends with '/'. Opens no object.

        Lists the directories that lead to that key, and empty ones before it: for an entry of the chain, the directory
        of all blocks and then one block. If `key` was the last in its directory, lists that directory too.
        """
        if not check_prefix(prefix).endswith("/"):
            raise InvalidInput(f"first_key_after takes a prefix that ends with '/', not {prefix!r}")
        return first_after(self._names_in, prefix, key)

    def delete(self, key: str) -> None:
        """Remove one object by its exact key, durably. An absent key is not an error. Errors: see ObjectStore."""
        path = self._path(key)
        try:
            os.unlink(path)
            sync_folder(os.path.dirname(path))
        except (*ABSENT, IsADirectoryError):
            return
        except OSError as error:
            raise write_error(f"delete {path}", error) from error

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects by their exact keys; each directory is synced once, at the end. Errors: see ObjectStore."""
        folders = set()
        for path in [self._path(key) for key in keys]:
            try:
                os.unlink(path)
            except (*ABSENT, IsADirectoryError):
                continue
            except OSError as error:
                raise write_error(f"delete {path}", error) from error
            folders.add(os.path.dirname(path))
        for folder in sorted(folders):
            try:
                sync_folder(folder)
            except OSError as error:
                raise write_error(f"sync {folder}", error) from error

    def free_bytes(self) -> int | None:
        """Bytes that this user can still write to the disk; None if the directory is absent or can't be queried."""
        try:
            return shutil.disk_usage(self._root).free
        except OSError:
            return None

    def unwritable(self, folders: Iterable[str]) -> list[str]:
        """Return the paths of the directories in which this user can't create files.

        `folders`: the directories to check, as prefixes of keys. Those that do not exist are left out.
        """
        paths = (os.path.join(self._root, check_prefix(folder).rstrip("/")) for folder in folders)
        effective = os.access in os.supports_effective_ids
        return [
            path
            for path in paths
            if os.path.isdir(path) and not os.access(path, os.W_OK | os.X_OK, effective_ids=effective)
        ]

    def remove_abandoned(self, before_ms: int) -> int:
        """Remove the temporary files last written before `before_ms` (ms since the epoch). Return their number.

        If a file belongs to an open upload, the `publish` of that upload raises StoreUnavailable.
        """
        return self._names.remove_abandoned(before_ms)

    # ---- reading --------------------------------------------------------------------------------

    def _read(self, key: str, ranges: Sequence[tuple[int, int]] | None, root: int | None = None) -> list[memoryview]:
        """The bytes of `ranges` of an object, or all bytes if `ranges` is None.

        `root`: descriptor of the store's directory; if None, the directory is found by the store's path.
        """
        path = self._path(key)
        try:
            fd = os.open(path if root is None else key, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)
        except OSError as error:
            raise self._read_error(key, error) from error
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise self._absent(key)
            wanted = [(0, status.st_size)] if ranges is None else ranges
            # Check first: touching a map beyond the end of its file would kill the process (SIGBUS).
            for start, end in wanted:
                if end > status.st_size:
                    raise _too_short(path, start, end, status.st_size)
            if sum(end - start for start, end in wanted) < _MAP_FROM_BYTES or len(_maps) >= _MOST_MAPS:
                return [_read_range(fd, path, start, end) for start, end in wanted]
            mapped = mmap.mmap(fd, status.st_size, access=mmap.ACCESS_READ)
            _maps.add(mapped)
            whole = memoryview(mapped)
            return [whole[start:end] for start, end in wanted]
        except OSError as error:
            raise self._read_error(key, error) from error
        except ValueError as error:  # mmap raises it if the file was truncated after fstat
            raise Damaged(f"wanted {status.st_size} bytes of {path}, found: {error}") from error
        finally:
            os.close(fd)

    def _read_error(self, key: str, error: OSError) -> SparklogError:
        if isinstance(error, NotADirectoryError) and (not_a_directory := self._no_directory()):
            return not_a_directory
        if isinstance(error, ABSENT):
            return self._absent(key)
        return read_error(f"read {self._path(key)}", error)

    def _no_directory(self) -> InvalidInput | None:
        """Return an error if the store's directory, or one above it, is in fact a file. Otherwise return None."""
        try:
            if stat.S_ISDIR(os.stat(self._root).st_mode):
                return None
        except FileNotFoundError:
            return None
        except OSError:
            pass
        return InvalidInput(f"wanted a directory for a store, found a file at {self._root}, or on the way to it")

    def _absent(self, key: str) -> SparklogError:
        return self._names.unmounted() or KeyNotFound(f"wanted {key}, found nothing at {self._path(key)}")

    # ---- listing --------------------------------------------------------------------------------

    def _names_in(self, folder: str) -> list[str]:
        """Return the names in a folder of keys ('' or ending with '/'), in the order of keys.

        Names of directories end with '/', and are sorted with it. This gives the order of whole keys, including those
        in subfolders: `a-b` < `a/b`, although `a` < `a-b`.
        """
        path = os.path.join(self._root, folder)
        try:
            with os.scandir(path) as entries:
                return sorted(
                    f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries if is_key_part(entry.name)
                )
        except ABSENT as error:
            if isinstance(error, NotADirectoryError) and (not_a_directory := self._no_directory()):
                raise not_a_directory from error
            if (unmounted := self._names.unmounted()) is not None:
                raise unmounted from error
            return []
        except OSError as error:
            raise read_error(f"list {path}", error) from error

    def _walk(self, folder: str, begin: str) -> Iterator[StoredKey]:
        for name in self._names_in(folder):
            key = folder + name
            if not name.startswith(begin):
                continue
            if name.endswith("/"):
                yield from self._walk(key, "")
                continue
            try:
                status = os.stat(os.path.join(self._root, key))
            except FileNotFoundError:
                continue  # deleted since the directory was read
            except OSError as error:
                raise self._read_error(key, error) from error
            yield StoredKey(key, status.st_size, status.st_mtime_ns // 1_000_000)

    def _path(self, key: str) -> str:
        return os.path.join(self._root, check_key(key))


def _read_range(fd: int, path: str, start: int, end: int) -> memoryview:
    if end - start < _MAP_FROM_BYTES:
        body = os.pread(fd, end - start, start) if end > start else b""
        if len(body) != end - start:
            raise _too_short(path, start, end, start + len(body))
        return memoryview(body)
    import pyarrow as pa  # its pool reuses pages: zeroing new ones costs as much as the read

    view = memoryview(pa.allocate_buffer(end - start)).cast("B")
    at = 0
    while at < len(view):
        count = os.preadv(fd, [view[at:]], start + at)
        if not count:
            raise _too_short(path, start, end, start + at)
        at += count
    return view.toreadonly()


def _too_short(path: str, start: int, end: int, size_bytes: int) -> Damaged:
    return Damaged(f"wanted bytes [{start}, {end}) of {path}, found that it ends at byte {size_bytes}")
