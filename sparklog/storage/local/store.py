"""A store in a directory of this machine, or of a file system that every process mounts and that has hard links.

    <root>/<key>              the objects
    <root>/.tmp/<32 hex>      uploads that are not published (yet)

put-if-absent: temporary (O_EXCL) -> write -> fsync -> link to the key -> fsync of the directory -> unlink the
temporary. `link` is the one step that decides: it fails if the name is taken, and before it the name does not
exist, so an object is never seen in part, wherever the process is killed. sparklog never removes a directory.
"""

from __future__ import annotations

import mmap
import os
import shutil
import stat
import weakref
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote, unquote

from sparklog.core.errors import (
    Damaged,
    InvalidInput,
    KeyNotFound,
    SparklogError,
)
from sparklog.storage.folders import first_after
from sparklog.storage.keys import check_key, check_prefix, is_key_part
from sparklog.storage.local.errors import ABSENT, read_error, write_error
from sparklog.storage.local.names import DurableNames, sync_folder
from sparklog.storage.local.upload import LocalUpload
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey

# Below this size a read into memory is quicker than a map with its page faults (measured: equal near 1 MiB).
_MAP_FROM_BYTES = 1 << 20
# Each map holds a file descriptor, of which a process often has 1,024. What is read beyond this is copied.
_MOST_MAPS = 256
_maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def local_path(url_or_path: str) -> str:
    """The absolute path of a `file:` URL or of a bare path (also relative, also with ~). Links are not resolved.

    Raises InvalidInput for a URL that names another host or a relative path. %xx is decoded in URLs only.
    """
    path = url_or_path
    if url_or_path[:5].lower() == "file:":
        path = unquote(url_or_path[5:])
        if path.startswith("//"):
            host, slash, rest = path[2:].partition("/")
            if host not in ("", "localhost") or not slash:
                raise InvalidInput(f"a file URL is file:///absolute/path on this machine, not {url_or_path!r}")
            path = f"/{rest}"
        if not path.startswith("/"):
            raise InvalidInput(f"a file URL is file:///absolute/path, not {url_or_path!r}")
    elif path.startswith("~"):
        path = os.path.expanduser(path)
        if path.startswith("~"):
            raise InvalidInput(f"a path that begins with ~ names a user of this machine, not {url_or_path!r}")
    if not path or "\0" in path:
        raise InvalidInput(f"a path is not empty and has no zero byte, not {url_or_path!r}")
    absolute = os.path.abspath(path)
    return f"/{absolute.lstrip('/')}"  # POSIX lets abspath keep two leading slashes


class LocalStore:
    """Objects as files under one directory, which is made by the first write.

    Keys are paths, so here no key may continue another one with '/' (`a` and `a/b`): InvalidInput.
    """

    url: str
    read_ahead: int = 0

    def __init__(self, url_or_path: str) -> None:
        self._root = local_path(url_or_path)
        self.url = f"file://{quote(self._root)}"
        self._names = DurableNames(self._root)

    def __repr__(self) -> str:
        return f"LocalStore({self.url!r})"

    def put_if_absent(self, key: str, body: Bytes) -> None:
        """Write a whole object, durably, if nothing is under `key`. Errors: see the port.

        KeyExists means that the other object is durable too.
        """
        with self.upload(key) as upload:
            upload.write(body)
            upload.publish()

    def upload(self, key: str) -> LocalUpload:
        """Begin a put-if-absent whose body comes as a stream. Nothing is made before the first `write`."""
        return LocalUpload(self._names, self._path(key))

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        """Put an object of another directory under `key` if it is absent: the kernel copies the bytes. See the port."""
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
        """The whole object, read-only: mapped, or copied if it is small. Raises KeyNotFound, StoreUnavailable.

        A map costs no copy and stays valid after a delete. It holds a file descriptor until it is dropped, so only
        `_MOST_MAPS` of them are alive at once in a process; beyond that the bytes are copied. A file that is cut while
        it is mapped ends the process (SIGBUS): docs/stores.md says when.
        """
        return self._read(key, None)[0]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes [start, end) of each range: slices of one map, or copies (as `get` says). See the port."""
        for start, end in ranges:
            if not 0 <= start <= end:
                raise InvalidInput(f"a range of bytes needs 0 <= start <= end, not [{start}, {end}) of {key}")
        return self._read(key, ranges)

    def size(self, key: str) -> int:
        """Length in bytes. Raises KeyNotFound, StoreUnavailable."""
        path = self._path(key)
        try:
            found = os.stat(path)
        except OSError as error:
            raise self._read_error(key, error) from error
        if not stat.S_ISREG(found.st_mode):
            raise self._absent(key)
        return found.st_size

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        """All objects whose key begins with `prefix`, in ascending order of key, one directory in memory at a time.

        An object that comes or goes meanwhile may be in it or not. Files that no key can name are left out.
        """
        folder, slash, begin = check_prefix(prefix).rpartition("/")
        return self._walk(f"{folder}{slash}", begin)

    def first_key_after(self, prefix: str, key: str) -> str | None:
        """The smallest key > `key` among those that begin with `prefix`, or None. `prefix` ends with '/'.

        Costs one listing of each directory on the way to it (for the chain: the blocks, and one block), one
        more when `key` was the last of its directory, and one for each empty directory met; no object is opened.
        """
        if not check_prefix(prefix).endswith("/"):
            raise InvalidInput(f"first_key_after takes a prefix that ends with '/', not {prefix!r}")
        return first_after(self._names_in, prefix, key)

    def delete(self, key: str) -> None:
        """Remove one object by its exact key, durably. An absent key is no error. Errors: see the port."""
        path = self._path(key)
        try:
            os.unlink(path)
            sync_folder(os.path.dirname(path))
        except (*ABSENT, IsADirectoryError):
            return
        except OSError as error:
            raise write_error(f"delete {path}", error) from error

    def free_bytes(self) -> int | None:
        """What this user may still write on the disk, None if the directory is not there or can't be asked."""
        try:
            return shutil.disk_usage(self._root).free
        except OSError:
            return None

    def unwritable(self, folders: Iterable[str]) -> list[str]:
        """The paths of those folders of keys that are there, but take no new names from this user."""
        paths = (os.path.join(self._root, check_prefix(folder).rstrip("/")) for folder in folders)
        effective = os.access in os.supports_effective_ids
        return [
            path
            for path in paths
            if os.path.isdir(path) and not os.access(path, os.W_OK | os.X_OK, effective_ids=effective)
        ]

    def remove_abandoned(self, before_ms: int) -> int:
        """Drop the temporaries last written before `before_ms` (ms since the epoch). Returns how many.

        An upload that is still open then fails at `publish` with StoreUnavailable.
        """
        return self._names.remove_abandoned(before_ms)

    # ---- reading --------------------------------------------------------------------------------

    def _read(self, key: str, ranges: Sequence[tuple[int, int]] | None) -> list[memoryview]:
        path = self._path(key)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._read_error(key, error) from error
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise self._absent(key)
            wanted = [(0, found.st_size)] if ranges is None else ranges
            # Checked first: touching a map beyond the end of its file would kill the process (SIGBUS).
            for start, end in wanted:
                if end > found.st_size:
                    raise _too_short(path, start, end, found.st_size)
            if sum(end - start for start, end in wanted) < _MAP_FROM_BYTES or len(_maps) >= _MOST_MAPS:
                return [_read_range(fd, path, start, end) for start, end in wanted]
            mapped = mmap.mmap(fd, found.st_size, access=mmap.ACCESS_READ)
            _maps.add(mapped)
            whole = memoryview(mapped)
            return [whole[start:end] for start, end in wanted]
        except OSError as error:
            raise self._read_error(key, error) from error
        except ValueError as error:  # what mmap says to a file that was cut since fstat
            raise Damaged(f"wanted {found.st_size} bytes of {path}, found: {error}") from error
        finally:
            os.close(fd)

    def _read_error(self, key: str, error: OSError) -> SparklogError:
        if isinstance(error, NotADirectoryError) and (found := self._no_directory()):
            return found
        if isinstance(error, ABSENT):
            return self._absent(key)
        return read_error(f"read {self._path(key)}", error)

    def _no_directory(self) -> InvalidInput | None:
        """The error if a file is where the store's directory should be, or on the way to it."""
        try:
            if stat.S_ISDIR(os.stat(self._root).st_mode):
                return None
        except FileNotFoundError:
            return None
        except OSError:
            pass
        return InvalidInput(f"wanted a directory for a store, found a file at {self._root}, or on the way to it")

    def _absent(self, key: str) -> KeyNotFound:
        return KeyNotFound(f"wanted {key}, found nothing at {self._path(key)}")

    # ---- listing --------------------------------------------------------------------------------

    def _names_in(self, folder: str) -> list[str]:
        """What lies in a folder of keys ('' or ending with '/'), in the order of keys; directories end with '/'.

        Sorting with the '/' gives the order of the whole keys, also below: `a-b` < `a/b`, though `a` < `a-b`.
        """
        path = os.path.join(self._root, folder)
        try:
            with os.scandir(path) as entries:
                return sorted(
                    f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries if is_key_part(entry.name)
                )
        except ABSENT as error:
            if isinstance(error, NotADirectoryError) and (found := self._no_directory()):
                raise found from error
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
                found = os.stat(os.path.join(self._root, key))
            except FileNotFoundError:
                continue  # deleted since the directory was read
            except OSError as error:
                raise self._read_error(key, error) from error
            yield StoredKey(key, found.st_size, found.st_mtime_ns // 1_000_000)

    def _path(self, key: str) -> str:
        return os.path.join(self._root, check_key(key))


def _read_range(fd: int, path: str, start: int, end: int) -> memoryview:
    if end - start < _MAP_FROM_BYTES:
        body = os.pread(fd, end - start, start) if end > start else b""
        if len(body) != end - start:
            raise _too_short(path, start, end, start + len(body))
        return memoryview(body)
    import pyarrow as pa  # its pool keeps pages: fresh ones, zeroed first, cost as much as the reading

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
