"""Names on a disk that survive a power loss: one link into a synced directory turns a temporary file into an object."""

from __future__ import annotations

import os
from contextlib import suppress

from sparklog.core.errors import InvalidInput, KeyExists, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.host.dice import new_id
from sparklog.storage.local.errors import ABSENT, LINK_REFUSED, reason, write_error


class DurableNames:
    """The temporary files and the object names below one directory. Paths are absolute."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._durable_folders: set[str] = set()  # directories whose own names this process has made durable

    def remove_abandoned(self, before_ms: int) -> int:
        """Remove the temporary files last written before `before_ms` (ms since the epoch). Returns how many."""
        removed = 0
        folder = self._temporaries()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        if entry.stat().st_mtime_ns < before_ms * 1_000_000:
                            os.unlink(entry.path)
                            removed += 1
        except ABSENT:
            return 0
        except OSError as error:
            raise write_error(f"remove abandoned uploads from {folder}", error) from error
        return removed

    def _temporaries(self) -> str:
        return os.path.join(self._root, ".tmp")

    def open_temporary(self) -> tuple[int, str]:
        """A new file to write to, and its path. Raises OSError."""
        path = os.path.join(self._temporaries(), new_id())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o666), path
        except FileNotFoundError:
            self._durable_folders.clear()  # the root may be new as well
            os.makedirs(self._temporaries(), exist_ok=True)
            return os.open(path, flags, 0o666), path

    def link(self, temporary: str, path: str) -> None:
        """Give the durable file `temporary` the name `path`, durably. Raises the errors of `put_if_absent`."""
        folder, name = os.path.split(path)
        for attempt in range(2):
            try:
                folder_fd = self._open_folder(folder)
            except OSError as error:
                raise write_error(f"write {path}", error) from error
            try:
                # By descriptor, so that the directory that gets the name is the one that is synced.
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
                if not _is_at(folder, folder_fd):
                    raise OutcomeUnknown(
                        f"wanted to publish {path}, found another directory there afterwards: a disk was mounted or "
                        "unmounted meanwhile"
                    )
                return
            finally:
                with suppress(OSError):  # nothing depends on it
                    os.close(folder_fd)

    def _taken(self, path: str, folder_fd: int) -> SparklogError:
        if os.path.isdir(path):
            return InvalidInput(f"a key may not be the folder of other keys, found a directory at {path}")
        # The other writer may not have synced the directory yet, and the caller will build on what it reads there.
        try:
            os.fsync(folder_fd)
        except OSError as error:
            return write_error(f"write {path}", error)
        return KeyExists(f"wanted to put {path} if absent, found an object there")

    def _open_folder(self, folder: str) -> int:
        """A descriptor of a directory for objects. It is created if need be, and its own name is made durable."""
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
        """Make the names of `folder` and all directories above it durable, whoever created them, maybe just now."""
        above: list[str] = []
        while folder not in self._durable_folders and folder != "/":
            above.append(folder)
            folder = os.path.dirname(folder)
        for directory in reversed(above):
            try:
                sync_folder(os.path.dirname(directory))
            except PermissionError:
                # This process may not even list that directory above the root, so it did not create this one.
                if directory.startswith(f"{self._root}/"):
                    raise
            self._durable_folders.add(directory)


def _is_at(folder: str, folder_fd: int) -> bool:
    """Whether the path still leads to the open directory. Not if a disk was mounted over it, or unmounted, since."""
    try:
        return os.path.samestat(os.stat(folder), os.fstat(folder_fd))
    except OSError:
        return False


def sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
