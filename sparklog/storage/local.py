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
from contextlib import suppress
from urllib.parse import quote, unquote

from sparklog.core.errors import (
    Damaged,
    InvalidInput,
    KeyExists,
    KeyNotFound,
    OutcomeUnknown,
    SparklogError,
    StoreUnavailable,
)
from sparklog.host.dice import new_id
from sparklog.storage.folders import first_after
from sparklog.storage.keys import check_key, check_prefix, is_key_part
from sparklog.storage.local_errors import LINK_REFUSED, read_error, reason, write_error
from sparklog.storage.local_upload import LocalUpload
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey

# Below this size a read into memory is quicker than a map with its page faults (measured: equal near 1 MiB).
_MAP_FROM_BYTES = 1 << 20
# Each map holds a file descriptor, of which a process often has 1,024. What is read beyond this is copied.
_MOST_MAPS = 256
_maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

_ABSENT = (FileNotFoundError, NotADirectoryError)


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
        self._durable_folders: set[str] = set()  # directories whose own names were fsynced by this process

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
        return LocalUpload(self, check_key(key))

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
        return first_after(self._names, prefix, key)

    def delete(self, key: str) -> None:
        """Remove one object by its exact key, durably. An absent key is no error. Errors: see the port."""
        path = self._path(key)
        try:
            os.unlink(path)
            _sync_folder(os.path.dirname(path))
        except (*_ABSENT, IsADirectoryError):
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
        """Drop the temporaries that were last written before `before_ms` (ms since the epoch). Returns how many.

        An upload that is still open then fails at `publish` with StoreUnavailable.
        """
        removed = 0
        folder = self._temporaries()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        if entry.stat().st_mtime_ns < before_ms * 1_000_000:
                            os.unlink(entry.path)
                            removed += 1
        except _ABSENT:
            return 0
        except OSError as error:
            raise write_error(f"remove abandoned uploads from {folder}", error) from error
        return removed

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
        if isinstance(error, _ABSENT):
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

    def _names(self, folder: str) -> list[str]:
        """What lies in a folder of keys ('' or ending with '/'), in the order of keys; directories end with '/'.

        Sorting with the '/' gives the order of the whole keys, also below: `a-b` < `a/b`, though `a` < `a-b`.
        """
        path = os.path.join(self._root, folder)
        try:
            with os.scandir(path) as entries:
                return sorted(
                    f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries if is_key_part(entry.name)
                )
        except _ABSENT as error:
            if isinstance(error, NotADirectoryError) and (found := self._no_directory()):
                raise found from error
            return []
        except OSError as error:
            raise read_error(f"list {path}", error) from error

    def _walk(self, folder: str, begin: str) -> Iterator[StoredKey]:
        for name in self._names(folder):
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

    # ---- writing --------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        return os.path.join(self._root, check_key(key))

    def _temporaries(self) -> str:
        return os.path.join(self._root, ".tmp")

    def _open_temporary(self) -> tuple[int, str]:
        path = os.path.join(self._temporaries(), new_id())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o666), path
        except FileNotFoundError:
            self._durable_folders.clear()  # the root may be new, too
            os.makedirs(self._temporaries(), exist_ok=True)
            return os.open(path, flags, 0o666), path

    def _link(self, temporary: str, key: str) -> None:
        """Give the durable file `temporary` its name, durably. Raises what `put_if_absent` raises."""
        path = self._path(key)
        folder, name = os.path.split(path)
        for attempt in range(2):
            try:
                folder_fd = self._open_folder(folder)
            except OSError as error:
                raise write_error(f"write {path}", error) from error
            try:
                # By descriptor, so that the directory that gets the name is the one that is fsynced.
                os.link(temporary, name, dst_dir_fd=folder_fd)
            except FileExistsError as error:
                raise self._taken(path, folder_fd) from error
            except FileNotFoundError as error:
                if not os.path.exists(temporary):
                    raise StoreUnavailable(
                        f"wanted to publish {path}, found that its temporary {temporary} was removed as abandoned"
                    ) from error
                if attempt:
                    raise write_error(f"write {path}", error) from error
                self._durable_folders.clear()  # somebody removed the directory: make it again, once
            except OSError as error:
                if error.errno in LINK_REFUSED:
                    raise write_error(f"write {path}", error) from error
                raise OutcomeUnknown(f"wanted to publish {path}, link answered: {reason(error)}") from error
            else:
                try:
                    os.fsync(folder_fd)
                except OSError as error:
                    raise OutcomeUnknown(
                        f"wanted to make {path} durable, it is there but its directory is not: {reason(error)}"
                    ) from error
                return
            finally:
                with suppress(OSError):  # what counts is done
                    os.close(folder_fd)

    def _taken(self, path: str, folder_fd: int) -> SparklogError:
        if os.path.isdir(path):
            return InvalidInput(f"a key may not be the folder of other keys, found a directory at {path}")
        # Its writer may not have come to this yet, and the caller will build on what it reads there.
        try:
            os.fsync(folder_fd)
        except OSError as error:
            return write_error(f"write {path}", error)
        return KeyExists(f"wanted to put {path} if absent, found an object there")

    def _open_folder(self, folder: str) -> int:
        """A descriptor of a directory for objects, which is made if need be, and whose own name is durable."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            fd = os.open(folder, flags)
        except FileNotFoundError:
            missing = folder
            while not os.path.isdir(missing):
                self._durable_folders.discard(missing)
                missing = os.path.dirname(missing)
            os.makedirs(folder, exist_ok=True)
            fd = os.open(folder, flags)
        if folder not in self._durable_folders:
            try:
                self._sync_names_down_to(folder)
            except BaseException:
                os.close(fd)
                raise
        return fd

    def _sync_names_down_to(self, folder: str) -> None:
        """Make the name of `folder` and of every directory above it durable, whoever made them (maybe just now)."""
        above: list[str] = []
        while folder not in self._durable_folders and folder != "/":
            above.append(folder)
            folder = os.path.dirname(folder)
        for each in reversed(above):
            try:
                _sync_folder(os.path.dirname(each))
            except PermissionError:
                # A directory above the root that this process may not even list is not one that it made.
                if each.startswith(f"{self._root}/"):
                    raise
            self._durable_folders.add(each)


def _sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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
