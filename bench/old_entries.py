"""The deleter of old blocks of entries on a local disk, beside a plain removal of the same files that is as durable.

python -m bench.old_entries [BLOCKS]        prints a line
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.paired import Comparison, compared, interleaved, seconds
from sparklog.chain.old_entries import OldBlocks, delete_blocks
from sparklog.storage.keys import LOG, block_entries, entry_block_prefix, entry_key, snapshot_key
from sparklog.storage.local.store import LocalStore

BLOCKS = 25
ENTRY = os.urandom(600)  # about the size of an append's entry
ROUNDS = 2


def old_entries(folder: Path, blocks: int = BLOCKS, rounds: int = ROUNDS) -> list[Comparison]:
    """Whole blocks of entries, as `vacuum` deletes them once it has decided that they go."""
    root = folder / "old-entries"

    def timed(run: Callable[[], object]) -> float:
        _write_blocks(root, blocks)
        took = seconds(run)
        shutil.rmtree(root)
        return took

    sides = {"ours": lambda: _deleted(root, blocks), "theirs": lambda: _removed(root)}
    took = interleaved(sides, timed, rounds=rounds, warm_up=0)
    what = f"delete {blocks:,} blocks of {len(block_entries(0)):,} old entries, local disk"
    return [compared(what, "unlink, fsync of each folder", ">= 0.5", took["ours"], took["theirs"])]


def _write_blocks(root: Path, blocks: int) -> None:
    for block in range(blocks):
        (root / entry_block_prefix(block)).mkdir(parents=True)
        for n in block_entries(block):
            (root / entry_key(n)).write_bytes(ENTRY)
    LocalStore(str(root)).put_if_absent(_covering(blocks), b"")
    os.sync()


def _deleted(root: Path, blocks: int) -> None:
    old = OldBlocks(blocks, _covering(blocks))
    deleted = sum(len(group.entries) for group in delete_blocks(LocalStore(str(root)), old))
    wanted = block_entries(blocks).start
    if deleted != wanted:
        raise AssertionError(f"wanted {wanted:,} entries deleted, found {deleted:,}")


def _covering(blocks: int) -> str:
    """The key of a snapshot that covers these blocks, and one more."""
    return snapshot_key(block_entries(blocks)[-1])


def _removed(root: Path) -> None:
    for folder in sorted((root / LOG).iterdir()):
        for name in os.listdir(folder):
            os.unlink(folder / name)
        fd = os.open(folder, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        if sys.argv[1:]:
            old_entries(Path(name), int(sys.argv[1]), 1)
        else:
            old_entries(Path(name))


if __name__ == "__main__":
    main()
