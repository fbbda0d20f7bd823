"""Guards of the Python producer: order, uniqueness, and what becomes of records when something fails."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_FLUSHES: Final = "sparklog/core/producing/flushes.py"
_PRODUCER: Final = "sparklog/client/producer/producer.py"
_HISTORIES: Final = "tests/core/producing/test_flush_histories.py::"
_WHOLE: Final = "tests/client/producer/test_producer.py::"
_PROCESSES: Final = "tests/client/producer/test_processes.py::"

GUARDS: Final = ()
