"""What is particular to stores in a directory: files, maps, durability, the cost of a look-up."""

from __future__ import annotations

import mmap
import os
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from sparklog.core.errors import Damaged, InvalidInput, KeyExists, KeyNotFound
from sparklog.storage.keys import LOG, entry_key
from sparklog.storage.local import store as local
from sparklog.storage.local.store import LocalStore
from tests.kit.open_files import open_below

LATER_MS = 2**53


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "parent" / "store"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(str(root))


# ---- files --------------------------------------------------------------------------------------


def test_objects_are_plain_files_and_nothing_else_is_left(store: LocalStore, root: Path) -> None:
    store.put_if_absent("a/b", b"body")
    with pytest.raises(KeyExists):
        store.put_if_absent("a/b", b"other")
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*")) == [".tmp", "a", "a/b"]
    assert (root / "a" / "b").read_bytes() == b"body"


def test_the_directory_is_made_by_the_first_write_only(store: LocalStore, root: Path) -> None:
    for read in (store.get, store.size):
        with pytest.raises(KeyNotFound):
            read("a")
    assert list(store.list_keys("")) == []
    assert store.first_key_after("a/", "") is None
    store.delete("a")
    assert store.remove_abandoned(LATER_MS) == 0
    store.upload("a").abort()
    assert not root.parent.exists()
    store.put_if_absent("a", b"")
    assert root.is_dir()


# M: F-01
def test_a_store_whose_directories_were_removed_is_made_again_and_durable(store: LocalStore, root: Path) -> None:
    store.put_if_absent("a/b", b"first")
    shutil.rmtree(root)
    with pytest.MonkeyPatch.context() as patch:
        trace = _Trace(patch)
        store.put_if_absent("a/b", b"second")
    assert {("fsync", str(root.parent)), ("fsync", str(root)), ("fsync", f"{root}/a")} <= set(trace.calls)
    assert bytes(store.get("a/b")) == b"second"
    shutil.rmtree(root / "a")
    with pytest.MonkeyPatch.context() as patch:
        trace = _Trace(patch)
        store.put_if_absent("a/c", b"third")
    assert {("fsync", str(root)), ("fsync", f"{root}/a")} <= set(trace.calls)
    assert bytes(store.get("a/c")) == b"third"


@pytest.mark.parametrize("made_again_by_another", [False, True])
def test_a_directory_removed_at_the_last_moment_is_made_again_and_durable(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, made_again_by_another: bool
) -> None:
    store.put_if_absent("a/b", b"first")
    link, links = os.link, 0

    def remove_then_link(*args: str, dst_dir_fd: int) -> None:
        nonlocal links
        links += 1
        if links == 1:
            (root / "a" / "b").unlink()
            (root / "a").rmdir()
            if made_again_by_another:
                (root / "a").mkdir()
        link(*args, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "link", remove_then_link)
    trace = _Trace(monkeypatch)
    store.put_if_absent("a/c", b"second")
    assert links == 2
    assert bytes(store.get("a/c")) == b"second"
    assert ("fsync", str(root)) in trace.calls


def test_what_no_key_can_name_is_not_listed(store: LocalStore, root: Path) -> None:
    store.put_if_absent("a/b", b"body")
    upload = store.upload("a/open")
    upload.write(b"body")
    for foreign in (".DS_Store", "a/.nfs0001", "a/with space", "ä"):
        (root / foreign).write_bytes(b"")
    assert len(list((root / ".tmp").iterdir())) == 1
    assert [each.key for each in store.list_keys("")] == ["a/b"]
    assert store.first_key_after("a/", "a/b") is None


def test_a_key_may_not_be_the_folder_of_another(store: LocalStore) -> None:
    store.put_if_absent("a/b/c", b"body")
    for key in ("a", "a/b", "a/b/c/d", "a/b/c/d/e"):
        with pytest.raises(InvalidInput, match="a key may not"):
            store.put_if_absent(key, b"body")
    assert [each.key for each in store.list_keys("")] == ["a/b/c"]
    assert store.remove_abandoned(LATER_MS) == 0


def test_a_listing_goes_on_when_objects_vanish_under_it(store: LocalStore) -> None:
    for name in "abcd":
        store.put_if_absent(f"dir/{name}", b"")
    listing = store.list_keys("dir/")
    assert next(listing).key == "dir/a"
    store.delete("dir/b")
    store.delete("dir/c")
    assert [each.key for each in listing] == ["dir/d"]


def test_only_temporaries_older_than_asked_for_are_removed(store: LocalStore, root: Path) -> None:
    for seconds in (1, 2, 3):
        upload = store.upload("a")
        upload.write(b"body")
        newest = max((root / ".tmp").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (seconds, seconds))
    assert store.remove_abandoned(before_ms=2_000) == 1
    assert store.remove_abandoned(before_ms=3_001) == 2
    assert list((root / ".tmp").iterdir()) == []


# ---- reading ------------------------------------------------------------------------------------


LARGE = 3 << 20


# M: S-08
def test_large_reads_are_slices_of_one_map_of_the_file(store: LocalStore) -> None:
    store.put_if_absent("a", bytes(LARGE))
    whole = store.get("a")
    first, second = store.get_ranges("a", [(0, 2 << 20), (1 << 20, LARGE)])
    assert isinstance(whole.obj, mmap.mmap)
    assert isinstance(first.obj, mmap.mmap)
    assert first.obj is second.obj


def test_reads_keep_no_descriptor_open_but_the_maps(store: LocalStore, root: Path) -> None:
    store.put_if_absent("large", bytes(LARGE))
    store.put_if_absent("small", b"body")
    held = store.get("large")
    assert len(open_below(root)) == 1
    del held
    for _ in range(3):
        store.get("large"), store.get("small"), store.get_ranges("large", [(5, 2 << 20)])
        with pytest.raises(KeyExists):
            store.put_if_absent("small", b"other")
        with pytest.raises(Damaged):
            store.get_ranges("large", [(0, LARGE + 1)])
    assert open_below(root) == []


def test_however_much_is_held_descriptors_are_left(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that keeps what it reads, as a table of uncompressed columns does, runs out of no descriptors."""
    monkeypatch.setattr(local, "_MOST_MAPS", 3)
    monkeypatch.setattr(local, "_maps", weakref.WeakSet())  # without those that other tests have left
    body = bytes(range(256)) * (LARGE // 256)
    store.put_if_absent("a", body)
    held = [*(store.get("a") for _ in range(5)), *store.get_ranges("a", [(1, 2 << 20), (7, LARGE)])]
    assert 0 < len(open_below(root)) <= 3
    assert [each.readonly for each in held] == [True] * 7
    assert held == [body] * 5 + [body[1 : 2 << 20], body[7:]]
    del held
    assert isinstance(store.get("a").obj, mmap.mmap), "maps that were dropped make room for others"


def test_what_was_read_of_a_small_object_outlives_a_cut_of_its_file(store: LocalStore, root: Path) -> None:
    body = bytes(range(256)) * 4_000
    store.put_if_absent("a", body)
    (read,) = store.get_ranges("a", [(0, len(body))])
    assert isinstance(read.obj, bytes), "to touch a map of a file that was cut would end the process"
    os.truncate(root / "a", 0)
    assert read == body


@pytest.mark.parametrize("cut_to", [0, 100, 2_500_000])
@pytest.mark.parametrize("most_maps", [256, 0], ids=["mapped", "copied"])
def test_a_file_that_was_cut_is_damage_with_file_and_numbers(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, cut_to: int, most_maps: int
) -> None:
    monkeypatch.setattr(local, "_MOST_MAPS", most_maps)
    store.put_if_absent("dir/object", bytes(LARGE))
    os.truncate(root / "dir" / "object", cut_to)
    for start in (cut_to, LARGE - 1):
        with pytest.raises(Damaged) as found:
            store.get_ranges("dir/object", [(start, LARGE)])
        wanted = f"wanted bytes [{start}, {LARGE}) of {root}/dir/object, found that it ends at byte {cut_to}"
        assert wanted in str(found.value)


@pytest.mark.parametrize("size_bytes", [100, LARGE])
def test_a_file_that_is_cut_while_it_is_copied_is_damage(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int
) -> None:
    monkeypatch.setattr(local, "_MOST_MAPS", 0)
    store.put_if_absent("a", bytes(size_bytes))
    measured = os.fstat

    def cut_then(fd: int) -> os.stat_result:
        found = measured(fd)
        os.truncate(root / "a", 60)
        return found

    monkeypatch.setattr(local.os, "fstat", cut_then)
    with pytest.raises(Damaged, match="found that it ends at byte 60"):
        store.get("a")


# ---- what a look-up costs -----------------------------------------------------------------------


def test_first_key_after_reads_only_the_directories_on_its_way(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (0, 1, 4096, 4097, 8192, 12288):
        store.put_if_absent(entry_key(n), b"")
    store.delete(entry_key(8192))
    scanned: list[str] = []
    scandir = os.scandir

    def counting(path: str) -> object:
        scanned.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counting)
    for after, found, folders in (
        (4096, 4097, 2),  # the blocks, and its own block
        (0, 1, 2),
        (1, 4096, 3),  # and the next block
        (4097, 12288, 4),  # and an empty block
        (12288, None, 2),
    ):
        scanned.clear()
        assert store.first_key_after(LOG, entry_key(after)) == (None if found is None else entry_key(found))
        assert len(scanned) == folders


# ---- durability ---------------------------------------------------------------------------------


class _Trace:
    """The calls that reach the disk, in order: (call, path)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        self._paths: dict[int, str] = {}
        os_open, os_fsync, os_link, os_mkdir, os_write = os.open, os.fsync, os.link, os.mkdir, os.write

        def traced_open(path: str, *args: int, dir_fd: int | None = None) -> int:
            fd = os_open(path, *args, dir_fd=dir_fd)
            self._paths[fd] = self._path(path, dir_fd)
            return fd

        def traced_write(fd: int, body: memoryview) -> int:
            self.calls.append(("write", self._paths[fd]))
            return os_write(fd, body)

        def traced_fsync(fd: int) -> None:
            os_fsync(fd)
            self.calls.append(("fsync", self._paths[fd]))

        def traced_link(source: str, name: str, *, dst_dir_fd: int) -> None:
            os_link(source, name, dst_dir_fd=dst_dir_fd)
            self.calls.append(("link", f"{self._paths[dst_dir_fd]}/{name}"))

        def traced_mkdir(path: str, *args: int, dir_fd: int | None = None) -> None:
            os_mkdir(path, *args, dir_fd=dir_fd)
            self.calls.append(("mkdir", self._path(path, dir_fd)))

        traced: dict[str, Callable[..., object]] = {
            "open": traced_open,
            "write": traced_write,
            "fsync": traced_fsync,
            "link": traced_link,
            "mkdir": traced_mkdir,
        }
        for name, function in traced.items():
            monkeypatch.setattr(os, name, function)

    def _path(self, path: str, dir_fd: int | None) -> str:
        return path if dir_fd is None else os.path.normpath(os.path.join(self._paths[dir_fd], path))


# M: F-01
def test_bytes_then_name_then_directory_reach_the_disk_before_the_answer(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_if_absent("a/first", b"body")
    trace = _Trace(monkeypatch)
    store.put_if_absent("a/b", b"body")
    temporary = trace.calls[0][1]
    assert trace.calls == [
        ("write", temporary),
        ("fsync", temporary),
        ("link", f"{root}/a/b"),
        ("fsync", f"{root}/a"),
    ]
    assert temporary.startswith(f"{root}/.tmp/")


# M: F-01
def test_new_directories_are_durable_before_the_answer(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = _Trace(monkeypatch)
    store.put_if_absent("a/b/c", b"body")
    made = [path for call, path in trace.calls if call == "mkdir"]
    assert {str(root), str(root.parent), f"{root}/a", f"{root}/a/b"} <= set(made)
    for path in made:
        if not path.endswith("/.tmp"):
            parent = os.path.dirname(path)
            assert ("fsync", parent) in trace.calls[trace.calls.index(("mkdir", path)) :]
    assert trace.calls[-1] == ("fsync", f"{root}/a/b")


# M: F-01
def test_directories_that_another_process_just_made_are_durable_before_the_answer(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / ".tmp").mkdir()
    trace = _Trace(monkeypatch)
    store.put_if_absent("a/b/c", b"body")
    synced = [path for call, path in trace.calls if call == "fsync"]
    assert {str(root.parent.parent), str(root.parent), str(root), f"{root}/a", f"{root}/a/b"} <= set(synced)


# M: F-01
def test_who_finds_a_key_taken_builds_on_a_durable_object(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_if_absent("a/b", b"body")
    trace = _Trace(monkeypatch)
    with pytest.raises(KeyExists):
        store.put_if_absent("a/b", b"other")
    assert trace.calls[-1] == ("fsync", f"{root}/a")


# M: F-01
def test_a_delete_is_durable(store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_if_absent("a/b", b"body")
    trace = _Trace(monkeypatch)
    store.delete("a/b")
    assert trace.calls == [("fsync", f"{root}/a")]
