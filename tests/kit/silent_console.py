"""Consoles for jobs in tests. To lay out the table of a plan takes a job of a few records a third of its time.

SILENT drops what a job prints. A LateConsole lays it out when a test asks for the text.
"""

from __future__ import annotations

import io
from typing import Any, Final

from rich.console import Console


class SilentConsole(Console):
    """Drops what is printed."""

    def print(self, *objects: Any, **how: Any) -> None:
        pass


SILENT: Final = SilentConsole(file=io.StringIO())


class LateConsole(Console):
    """Keeps what is printed, and lays it out when a test asks for the text."""

    def __init__(self, width: int) -> None:
        self._text = io.StringIO()
        self._printed: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        super().__init__(file=self._text, width=width)

    def print(self, *objects: Any, **how: Any) -> None:
        self._printed.append((objects, how))

    def text(self) -> str:
        """Everything that was printed so far."""
        printed, self._printed = self._printed, []
        for objects, how in printed:
            super().print(*objects, **how)
        return self._text.getvalue()
