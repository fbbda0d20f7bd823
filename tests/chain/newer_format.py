"""Metadata as a later version of sparklog writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklog.chain import framing
from sparklog.core.state import FORMAT

NEWER = FORMAT + 1


def make_newer(entry: Path) -> None:
    """Give the entry in this file the format that comes next."""
    payload = entry.read_bytes().partition(b"\n")[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "FORMAT", NEWER)
        entry.write_bytes(framing.frame("entry", payload))
