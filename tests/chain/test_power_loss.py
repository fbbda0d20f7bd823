"""Power loss on a local disk: the file system may drop every name whose directory was not synced afterwards."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sparklog.core.commands import Application
from sparklog.core.errors import ChainDamaged
from sparklog.storage.keys import entry_key
from sparklog.storage.local.store import LocalStore
from tests.chain.chain_kit import SMALL_BLOCK, Member, append, member, new_chain, small_blocks, upload_of
from tests.faults.deadly_calls import Died

Patch = pytest.MonkeyPatch


class Names:
    """Names of files whose directories have not been synced since the names were given."""

    def __init__(self, patch: Patch) -> None:
        self.unsynced: set[str] = set()
        self.dies_before_sync_of = ""
        self._link, self._fsync = os.link, os.fsync
        patch.setattr(os, "link", self.link)
        patch.setattr(os, "fsync", self.fsync)

    def link(self, source: str, name: str, **how: Any) -> None:
        self._link(source, name, **how)
        folder = os.readlink(f"/proc/self/fd/{how['dst_dir_fd']}")
        self.unsynced.add(os.path.join(folder, name))
        if self.dies_before_sync_of and name == os.path.basename(self.dies_before_sync_of):
            self.dies_before_sync_of = ""
            raise Died

    def fsync(self, fd: int) -> None:
        self._fsync(fd)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            folder = os.readlink(f"/proc/self/fd/{fd}")
            self.unsynced = {each for each in self.unsynced if os.path.dirname(each) != folder}

    def power_loss(self) -> None:
        for each in self.unsynced:
            os.unlink(each)


@pytest.fixture
def names(monkeypatch: Patch) -> Names:
    small_blocks(monkeypatch)
    return Names(monkeypatch)


def dies_after_linking(names: Names, writer: Member, n: int, act: Callable[[], object]) -> None:
    """The writer links entry n, and dies before it syncs the directory."""
    assert writer.follower.state.n == n - 1
    names.dies_before_sync_of = entry_key(n)
    with pytest.raises(Died):
        act()
    assert any(each.endswith(entry_key(n)) for each in names.unsynced)


def trusts_what_it_read(member: Member) -> None:
    """Act as if all entries were known to be durable."""
    member.committer._machine._durable_n = 1_000_000


@pytest.mark.parametrize("by", ["command id", "application version"])
@pytest.mark.parametrize("guarded", [True, False])
def test_a_repeat_that_is_answered_from_the_entry_of_a_dead_writer_is_durable(
    names: Names, tmp_path: Path, by: str, guarded: bool
) -> None:
    chain = new_chain(store=LocalStore(str(tmp_path)))
    submission = chain.begin(append(application=Application("app", 1)))
    dies_after_linking(names, chain, 2, lambda: chain.submit(submission))
    other = member(chain.store.inner)
    repeat = submission if by == "command id" else other.begin(append(application=Application("app", 1)))
    if not guarded:
        trusts_what_it_read(other)
    assert other.submit(msgspec.structs.replace(repeat, in_doubt=True)).n == 2  # acknowledged
    names.power_loss()
    uploads = member(LocalStore(str(tmp_path))).uploads()
    assert (uploads == [upload_of(submission)]) is guarded


@pytest.mark.parametrize("guarded", [True, False])
def test_a_writer_that_begins_a_block_makes_the_last_entry_of_the_one_before_durable(
    names: Names, tmp_path: Path, guarded: bool
) -> None:
    chain = new_chain(store=LocalStore(str(tmp_path)))
    while chain.follower.state.n < SMALL_BLOCK - 2:
        chain.append()
    dies_after_linking(names, chain, SMALL_BLOCK - 1, chain.append)
    other = member(chain.store.inner)
    if not guarded:
        trusts_what_it_read(other)
    assert other.append().n == SMALL_BLOCK  # acknowledged, on top of what the dead writer wrote
    names.power_loss()
    assert LocalStore(str(tmp_path)).get(entry_key(SMALL_BLOCK))
    if guarded:
        assert len(member(LocalStore(str(tmp_path))).uploads()) == SMALL_BLOCK - 1
    else:
        with pytest.raises(ChainDamaged, match="is missing, but entry 8 is there"):
            member(LocalStore(str(tmp_path)))
