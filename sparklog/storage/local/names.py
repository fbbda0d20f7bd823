"""File names that survive a power loss: one hard link into a synced directory turns a temporary file into an object."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sparklog.core.errors import InvalidInput, KeyExists, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.host.dice import new_id
from sparklog.storage.local.local_errors import ABSENT, LINK_REFUSED, reason, write_error

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class DurableNames:
    """The temporary files of a store, and the durable names of its objects, below the directory `root`.

    `landmark` is a directory that is known to exist, or None. If it is missing, the disk was unmounted, and `root` is
    now an empty mount point. `newest`, unless it is None, returns the path of the newest object known to exist. If this
    object is not below `root`, `root` may be an older copy of the store, so nothing is put there. These two paths are
    relative to `root`; all others are absolute.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self.landmark: str | None = None
        self.newest: Callable[[], str] | None = None
        self._durable_folders: set[str] = set()  # directories whose own names this process has made durable

    def remove_abandoned(self, before_ms: int) -> int:
        """Remove the temporary files last written before `before_ms` (ms since the epoch). Return their number."""
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

    def unmounted(self) -> StoreUnavailable | None:
        """Return an error if the landmark is missing, because the disk is not mounted. Otherwise return None."""
        if self.landmark is None or os.path.isdir(os.path.join(self._root, self.landmark)):
            return None
        return self._unmounted(self.landmark)

    def _unmounted(self, wanted: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"wanted {wanted} in {self._root}, found nothing, but it was there: mount its disk if it is not "
            "mounted; if its data is lost, see docs/replication.md, When the metadata is lost"
        )

    def open_temporary(self) -> tuple[int, str]:
        """Create a file to write to; return its descriptor and path.

        Raises OSError, and StoreUnavailable if the disk is not mounted.
        """
        path = os.path.join(self._temporaries(), new_id())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o666), path
        except FileNotFoundError:
            if (unmounted := self.unmounted()) is not None:
                raise unmounted from None
            self._durable_folders.clear()  # the root may be new as well
            os.makedirs(self._temporaries(), exist_ok=True)
            return os.open(path, flags, 0o666), path

    def link(self, temporary: str, path: str) -> None:
        """Give the file `temporary`, whose bytes are durable, the name `path`. Make this name durable too.

        Raises the errors of `put_if_absent`.
        """
        folder, name = os.path.split(path)
        for attempt in range(2):
            try:
                folder_fd = self._open_folder(folder)
            except OSError as error:
                raise write_error(f"write {path}", error) from error
            try:
                # By descriptor, so that the directory that gets the name is the directory that is synced.
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
                self._durable_folders.clear()  # another process removed the directory: create it again, once
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
                with suppress(OSError):  # nothing depends on this removal
                    os.close(folder_fd)

    def _taken(self, path: str, folder_fd: int) -> SparklogError:
        if os.path.isdir(path):
            return InvalidInput(f"a key may not be the folder of other keys, found a directory at {path}")
        # The other writer may not have synced the directory yet, and the caller will rely on what it reads there.
        try:
            os.fsync(folder_fd)
        except OSError as error:
            return write_error(f"write {path}", error)
        return KeyExists(f"wanted to put {path} if absent, found an object there")

    def _open_folder(self, folder: str) -> int:
        """Open a directory for objects and return its descriptor. Create it if needed, and make its name durable.

        The directory is below a root that has the newest known object, even if a disk is mounted over the root
        meanwhile.
        """
        root = self._open_root()
        try:
            fd = self._open_below(root, os.path.relpath(folder, self._root))
        finally:
            os.close(root)
        if folder not in self._durable_folders:
            try:
                self._sync_names_down_to(folder)
            except BaseException:
                os.close(fd)
                raise
        return fd

    def _open_root(self) -> int:
        """Open the root and return its descriptor. Raises StoreUnavailable if the newest known object is not below it.

        Close the descriptor before the store's method returns: an open one keeps the disk from being unmounted.
        """
        wanted = None if self.newest is None else self.newest()
        if wanted is None:
            os.makedirs(self._root, exist_ok=True)
        root = os.open(self._root, _FOLDER)
        try:
            if wanted is not None:
                os.stat(wanted, dir_fd=root)
        except BaseException as error:
            os.close(root)
            if wanted is not None and isinstance(error, ABSENT):
                raise self._unmounted(wanted) from None
            raise
        return root

    def _open_below(self, root: int, folder: str) -> int:
        """Open a directory below the root and return its descriptor. Missing directories on the way are created."""
        try:
            return os.open(folder, _FOLDER, dir_fd=root)
        except FileNotFoundError:
            parts = folder.split(os.sep)
            for end in range(1, len(parts) + 1):
                with suppress(FileExistsError):
                    os.mkdir(part := os.path.join(*parts[:end]), dir_fd=root)
                    self._durable_folders.discard(os.path.join(self._root, part))
            return os.open(folder, _FOLDER, dir_fd=root)

    def _sync_names_down_to(self, folder: str) -> None:
        """Make the names of `folder` and all directories above it durable: any process may have just created them."""
        above: list[str] = []
        while folder not in self._durable_folders and folder != "/":
            above.append(folder)
            folder = os.path.dirname(folder)
        for directory in reversed(above):
            try:
                sync_folder(os.path.dirname(directory))
            except PermissionError:
                # A process that may not list a directory above the root did not create one in it either.
                if directory.startswith(f"{self._root}/"):
                    raise
            self._durable_folders.add(directory)


def _is_at(folder: str, folder_fd: int) -> bool:
    """True if the path `folder` still leads to the open directory. False if a disk was mounted or unmounted there."""
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
