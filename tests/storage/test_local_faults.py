"""Stores in a directory when the disk, the rights or the process fail: absent or whole, and the writer knows which."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sparklog.core.errors import (
    InvalidInput,
    KeyExists,
    KeyNotFound,
    Landed,
    OutcomeUnknown,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.storage.local.store import LocalStore
from tests.faults.killed_runs import KilledRuns
from tests.kit.open_files import open_below
from tests.storage.killed_writer import PIECE

LATER_MS = 2**53
PROJECT = Path(__file__).parent.parent.parent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> LocalStore:
    store = LocalStore(str(root))
    store.put_if_absent("dir/first", b"first")
    return store


def _failing(number: int) -> Callable[..., Any]:
    def call(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


@contextmanager
def _os(name: str, function: Callable[..., Any]) -> Iterator[pytest.MonkeyPatch]:
    """Inside, `os.<name>` is `function`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, name, function)
        yield patch


def _is_whole_or_absent(store: LocalStore, key: str, body: bytes) -> bool:
    """Whether the object is there; if so it is whole, and the listing agrees."""
    listed = [each.size_bytes for each in store.list_keys(key)]
    try:
        found = bytes(store.get(key))
    except KeyNotFound:
        assert listed == []
        return False
    assert found == body
    assert listed == [len(body)]
    return True


# ---- killed -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killer() -> Iterator[KilledRuns]:
    """Writes an object in a process of its own."""
    with KilledRuns("tests.storage.killed_writer") as runs:
        yield runs


# M: F-01 (kills)
@pytest.mark.parametrize("moment", ["before", "half", "after"])
@pytest.mark.parametrize("pieces", [1, 3])
def test_a_writer_killed_at_any_step_leaves_the_object_absent_or_whole(
    killer: KilledRuns, tmp_path: Path, pieces: int, moment: str
) -> None:
    body = PIECE * pieces
    seen: list[bool] = []
    for step in range(100):
        root = tmp_path / str(step) / "store"
        killed, _ = killer(str(root), "dir/object", pieces, step, moment)
        store = LocalStore(str(root))
        whole = _is_whole_or_absent(store, "dir/object", body)
        if not killed:
            break
        seen.append(whole)
        # The next writer goes on: it makes the object, or finds the whole one.
        if whole:
            with pytest.raises(KeyExists):
                store.put_if_absent("dir/object", b"other")
        else:
            store.put_if_absent("dir/object", b"other")
        store.remove_abandoned(LATER_MS)
        assert list((root / ".tmp").iterdir()) == []
        assert _is_whole_or_absent(store, "dir/object", body if whole else b"other")
    else:
        pytest.fail("the writer never came to its end")
    assert len(seen) > 10
    assert seen == sorted(seen), "once there it stays"
    assert {False, True} == set(seen)


# ---- failing calls ------------------------------------------------------------------------------

_BEFORE_THE_NAME = [
    ("write", errno.ENOSPC, StoreFull),
    ("write", errno.EDQUOT, StoreFull),
    ("write", errno.EIO, StoreUnavailable),
    ("fsync", errno.ENOSPC, StoreFull),
    ("fsync", errno.EIO, StoreUnavailable),
    ("open", errno.EROFS, StoreReadOnly),
    ("open", errno.EACCES, StoreReadOnly),
    ("open", errno.ENOSPC, StoreFull),
    ("open", errno.EMFILE, StoreUnavailable),
    ("close", errno.EDQUOT, StoreFull),
    ("link", errno.EROFS, StoreReadOnly),
    ("link", errno.EPERM, StoreReadOnly),
    ("link", errno.ENOSPC, StoreFull),
    ("link", errno.EXDEV, StoreUnavailable),
    ("link", errno.ENAMETOOLONG, InvalidInput),
]


@pytest.mark.parametrize(
    ("call", "number", "kind"),
    _BEFORE_THE_NAME,
    ids=lambda each: errno.errorcode[each] if isinstance(each, int) else None,
)
def test_a_failure_before_the_object_has_its_name_says_that_nothing_landed(
    store: LocalStore, root: Path, call: str, number: int, kind: type[SparklogError]
) -> None:
    with _os(call, _failing(number)), pytest.raises(kind) as failed:
        store.put_if_absent("dir/object", b"body")
    assert failed.value.landed is Landed.NO
    assert f"{root}/dir/object" in str(failed.value)
    assert os.strerror(number) in str(failed.value)
    assert errno.errorcode[number] in str(failed.value)
    assert not _is_whole_or_absent(store, "dir/object", b"body")
    assert list((root / ".tmp").iterdir()) == []
    store.put_if_absent("dir/object", b"body")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_directory_that_cannot_be_made_is_reported_and_nothing_landed(
    store: LocalStore, root: Path, number: int
) -> None:
    kinds = {errno.ENOSPC: StoreFull, errno.EROFS: StoreReadOnly, errno.EIO: StoreUnavailable}
    with _os("mkdir", _failing(number)), pytest.raises(kinds[number]) as failed:
        store.put_if_absent("new/object", b"body")
    assert failed.value.landed is Landed.NO
    assert list((root / ".tmp").iterdir()) == []
    assert not (root / "new").exists()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_directory_that_is_not_durable_leaves_the_outcome_unknown(store: LocalStore, root: Path, number: int) -> None:
    link = os.link

    def link_then_break(*args: str, dst_dir_fd: int) -> None:
        link(*args, dst_dir_fd=dst_dir_fd)
        patch.setattr(os, "fsync", _failing(number))

    with _os("link", link_then_break) as patch, pytest.raises(OutcomeUnknown) as failed:
        store.put_if_absent("dir/object", b"body")
    assert failed.value.landed is Landed.UNKNOWN
    assert _is_whole_or_absent(store, "dir/object", b"body")
    assert list((root / ".tmp").iterdir()) == []


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
@pytest.mark.parametrize("made", [False, True])
def test_a_link_whose_answer_is_lost_leaves_the_outcome_unknown(store: LocalStore, number: int, made: bool) -> None:
    link = os.link

    def answer_lost(*args: str, dst_dir_fd: int) -> None:
        if made:
            link(*args, dst_dir_fd=dst_dir_fd)
        raise OSError(number, os.strerror(number))

    with _os("link", answer_lost), pytest.raises(OutcomeUnknown):
        store.put_if_absent("dir/object", b"body")
    assert _is_whole_or_absent(store, "dir/object", b"body") is made


def test_a_disk_that_is_swapped_during_publish_leaves_the_outcome_unknown(store: LocalStore, root: Path) -> None:
    """What was written lies below the disk that is mounted there now: nobody will find it."""
    real = os.fsync

    def swapped(fd: int) -> None:
        real(fd)
        if os.path.samestat(os.fstat(fd), os.stat(root / "dir")):
            root.rename(root.with_name("unmounted"))
            (root / "dir").mkdir(parents=True)

    with _os("fsync", swapped), pytest.raises(OutcomeUnknown, match="a disk was mounted or unmounted meanwhile"):
        store.put_if_absent("dir/second", b"second")
    with pytest.raises(KeyNotFound):
        store.get("dir/second")


def unmount(root: Path) -> None:
    """Leave the empty mount point."""
    root.rename(root.with_name("disk"))
    root.mkdir()


# M: F-01
@pytest.mark.parametrize("below", ["empty", "with the names of a store"])
def test_nothing_is_put_below_the_mount_point_of_a_disk_that_is_gone(store: LocalStore, root: Path, below: str) -> None:
    store.keep_to("dir/", lambda: "dir/first")
    unmount(root)
    if below != "empty":
        (root / ".tmp").mkdir()
    for key in ("dir/second", "other/object", "object"):
        with pytest.raises(StoreUnavailable, match="mount its disk if it is not mounted") as failed:
            store.put_if_absent(key, b"body")
        assert failed.value.landed is Landed.NO
    with pytest.raises(StoreUnavailable, match="mount its disk"):
        store.get("dir/first")
    with pytest.raises(StoreUnavailable, match="mount its disk"):
        store.size("dir/first")
    with pytest.raises(StoreUnavailable, match="mount its disk"):
        list(store.list_keys("dir/"))
    assert [path for path in root.rglob("*") if path.name != ".tmp"] == []
    shutil.rmtree(root)
    root.with_name("disk").rename(root)
    store.put_if_absent("dir/second", b"second")
    assert bytes(store.get("dir/second")) == b"second"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at descriptors in /proc")
def test_a_root_that_fails_holds_no_descriptor(store: LocalStore, root: Path) -> None:
    store.keep_to("dir/", lambda: "dir/first")
    before = open_below(root)
    with _os("stat", _failing(errno.EIO)):
        for _ in range(20):
            with pytest.raises(SparklogError):
                store.put_if_absent("new/object", b"body")
    assert open_below(root) == before


# M: F-01
@pytest.mark.parametrize("call", ["stat", "open", "mkdir", "link"])
def test_a_put_lands_on_the_disk_it_began_on_or_nowhere(store: LocalStore, root: Path, call: str) -> None:
    """The disk is unmounted at any moment of a put; what is below the mount point has the landmark's names, too."""
    store.keep_to("dir/", lambda: "dir/first")
    real, calls = getattr(os, call), 0

    def swapped(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at:
            unmount(root)
        return real(*args, **kwargs)

    for at in range(1, 6):
        calls = 0
        key = f"new-{call}-{at}/object"
        with _os(call, swapped), suppress(SparklogError):
            store.put_if_absent(key, b"body")
        if not root.with_name("disk").exists():
            break
        assert list(root.iterdir()) == []
        shutil.rmtree(root)
        root.with_name("disk").rename(root)
    assert at > 1


def test_objects_are_beside_each_other_if_one_directory_has_both(store: LocalStore) -> None:
    store.put_if_absent("mark", b"mark")
    assert bytes(store.get_beside("mark", ["dir/first"])) == b"mark"
    with pytest.raises(StoreUnavailable, match="wanted dir/second beside mark"):
        store.get_beside("mark", ["dir/first", "dir/second"])
    with pytest.raises(StoreUnavailable, match="wanted dir/second beside no-mark"):
        store.get_beside("no-mark", ["dir/second"])
    with pytest.raises(KeyNotFound):
        store.get_beside("no-mark", ["dir/first"])


@pytest.mark.parametrize("call", ["open", "stat"])
@pytest.mark.parametrize("began_mounted", [True, False])
def test_a_disk_that_is_swapped_while_two_objects_are_looked_up_is_not_taken_for_one_place(
    store: LocalStore, root: Path, call: str, began_mounted: bool
) -> None:
    """The disk has the mark, the folder below it the object; whichever is seen first, there is no place with both."""
    disk, below = root.with_name("disk"), root.with_name("below")
    root.rename(below)
    LocalStore(str(disk)).put_if_absent("mark", b"mark")
    now, later = (disk, below) if began_mounted else (below, disk)
    now.rename(root)
    real, calls = getattr(os, call), 0

    def swapped(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == (2 if call == "open" else 1):  # the first one opens the root
            root.rename(now)
            later.rename(root)
        return real(*args, **kwargs)

    with _os(call, swapped), pytest.raises((StoreUnavailable, KeyNotFound)):
        store.get_beside("mark", ["dir/first"])


# M: F-09
def test_a_temporary_removed_during_publish_ends_as_not_landed(store: LocalStore) -> None:
    link = os.link

    def vacuum_then_link(*args: str, dst_dir_fd: int) -> None:
        assert LocalStore(store.url).remove_abandoned(LATER_MS) == 1
        link(*args, dst_dir_fd=dst_dir_fd)

    with _os("link", vacuum_then_link), pytest.raises(StoreUnavailable, match="removed as abandoned") as failed:
        store.put_if_absent("dir/object", b"body")
    assert failed.value.landed is Landed.NO
    assert not _is_whole_or_absent(store, "dir/object", b"body")
    store.put_if_absent("dir/object", b"body")


def test_a_write_in_many_short_pieces_is_whole(store: LocalStore) -> None:
    write, body = os.write, os.urandom(1_000)
    with _os("write", lambda fd, rest: write(fd, rest[:7])):
        store.put_if_absent("dir/object", body)
    assert _is_whole_or_absent(store, "dir/object", body)


def test_an_upload_that_failed_frees_its_space_and_can_only_be_aborted(store: LocalStore, root: Path) -> None:
    upload = store.upload("dir/object")
    upload.write(b"body")
    with _os("write", _failing(errno.ENOSPC)), pytest.raises(StoreFull):
        upload.write(b"more")
    assert list((root / ".tmp").iterdir()) == []
    for call in (upload.publish, lambda: upload.write(b"again")):
        with pytest.raises(InvalidInput):
            call()
    upload.abort()
    assert not _is_whole_or_absent(store, "dir/object", b"body")


@pytest.mark.parametrize(
    ("call", "number", "kind"),
    [
        ("unlink", errno.EROFS, StoreReadOnly),
        ("unlink", errno.EACCES, StoreReadOnly),
        ("unlink", errno.EIO, StoreUnavailable),
        ("fsync", errno.EIO, StoreUnavailable),
    ],
)
def test_a_delete_that_fails_says_so(store: LocalStore, call: str, number: int, kind: type[SparklogError]) -> None:
    with _os(call, _failing(number)), pytest.raises(kind, match="wanted to delete"):
        store.delete("dir/first")
    store.delete("dir/first")
    assert list(store.list_keys("")) == []


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, StoreAccessDenied),
        (errno.EPERM, StoreAccessDenied),
        (errno.EIO, StoreUnavailable),
        (errno.EMFILE, StoreUnavailable),
    ],
)
def test_a_read_that_fails_is_taken_neither_for_an_absent_key_nor_for_damage(
    store: LocalStore, number: int, kind: type[SparklogError]
) -> None:
    calls: list[tuple[str, Callable[[], object]]] = [
        ("open", lambda: store.get("dir/first")),
        ("open", lambda: store.get_ranges("dir/first", [(0, 1)])),
        ("pread", lambda: store.get("dir/first")),
        ("stat", lambda: store.size("dir/first")),
        ("stat", lambda: list(store.list_keys("dir/"))),
        ("scandir", lambda: list(store.list_keys("dir/"))),
        ("scandir", lambda: store.first_key_after("dir/", "")),
    ]
    for name, call in calls:
        with _os(name, _failing(number)), pytest.raises(kind, match=errno.errorcode[number]):
            call()


# ---- real disks and rights ----------------------------------------------------------------------

_PUT = """
import sys
from sparklog.core.errors import SparklogError
from sparklog.storage.local.store import LocalStore
root, size = sys.argv[1], int(sys.argv[2])
try:
    LocalStore(root).put_if_absent("dir/object", bytes(size))
except SparklogError as error:
    print(error.code, error.landed)
"""


def _put_in_process(before: str, root: Path, size_bytes: int, **settings: Any) -> str:
    """What a put in a process of its own, after a shell command in its own mount name space, prints."""
    put = ["sh", "-c", f'{before} && exec "$@"', "put", sys.executable, "-c", _PUT, str(root), str(size_bytes)]
    command = ["unshare", "-m", *put] if before != "true" else put
    said: str = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True, **settings).stdout
    return said.strip()


@pytest.mark.usefixtures("can_mount")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}"
    assert _put_in_process(mount, tmp_path / "store", 10_000) == ""
    assert _put_in_process(mount, tmp_path / "store", 1_000_000) == "STORE_FULL no"


@pytest.mark.usefixtures("can_mount")
def test_a_disk_mounted_read_only_is_named(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o ro none {tmp_path}"
    assert _put_in_process(mount, tmp_path / "store", 10) == "STORE_READ_ONLY no"


def test_a_file_size_limit_is_a_full_store(root: Path) -> None:
    limit = (100_000, 100_000)
    said = _put_in_process("true", root, 200_000, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    assert said == "STORE_FULL no"
    assert not _is_whole_or_absent(LocalStore(str(root)), "dir/object", b"")


@pytest.mark.skipif(os.getuid() == 0, reason="directory rights do not bind root")
def test_a_directory_without_write_permission_is_read_only(store: LocalStore, root: Path) -> None:
    (root / ".tmp").chmod(0o500)
    try:
        with pytest.raises(StoreReadOnly):
            store.put_if_absent("dir/object", b"body")
    finally:
        (root / ".tmp").chmod(0o700)
    (root / "dir").chmod(0o500)
    try:
        with pytest.raises(StoreReadOnly):
            store.put_if_absent("dir/object", b"body")
        with pytest.raises(StoreReadOnly):
            store.delete("dir/first")
    finally:
        (root / "dir").chmod(0o700)
