"""SILENT drops what a job prints."""

from __future__ import annotations

import io
from typing import Final


class SilentStream(io.StringIO):
    """Drops what is printed."""

    def write(self, text: str) -> int:
        return len(text)


SILENT: Final = SilentStream()
