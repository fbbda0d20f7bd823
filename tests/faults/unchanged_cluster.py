"""What a refused call may leave behind in a cluster on disk: only uploads that no entry of the chain names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEFTOVERS = ("append/",)  # of a write that failed after its tasks had uploaded: vacuum takes them


def files_of(root: Path) -> dict[str, str]:
    """Each file below `root` by its path there, with the SHA-256 of its bytes."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


@contextmanager
def unchanged(root: str, leftovers: tuple[str, ...] = LEFTOVERS) -> Iterator[None]:
    """Check that the block alters no file of the cluster at `root` (path or file URL) and adds only `leftovers`."""
    path = Path(root.removeprefix("file://"))
    before = files_of(path)
    assert before, f"no cluster is in {path}"
    yield
    after = files_of(path)
    assert {name: after.get(name) for name in before} == before
    assert [name for name in sorted(set(after) - set(before)) if not name.startswith(leftovers)] == []
