"""Others come in while a job runs in this process, and the steps at which jobs are killed in processes of their own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from sparklog.storage.memory import MemoryStore, MemoryUpload

NEVER: Final = -1  # a step that no job reaches
_SEED: Final = 1


def killed_at(changes: int, request: pytest.FixtureRequest, kills: int = 2) -> Sequence[int]:
    """At which of these changes of a store the process of a job is killed: at `kills` of them, or with --campaign all.

    Each kill takes a process.
    """
    steps = range(changes)
    if request.config.getoption("--campaign"):
        return steps
    return sorted(random.Random(_SEED).sample(steps, min(kills, changes)))


def stride(request: pytest.FixtureRequest, usual: int) -> int:
    """How far it is from one step at which others come in to the next: `usual`, or 1 with --campaign."""
    return 1 if request.config.getoption("--campaign") else usual


def meet_at(patch: pytest.MonkeyPatch, step: int, others: Callable[[], None]) -> Callable[[], bool]:
    """Call `others` before the `step`-th change of a store in memory from now.

    The function returned says whether that came.
    """
    seen = [0]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            seen[0] += 1
            if seen[0] == step + 1:
                others()
            return call(*args)

        return wrapper

    for kind, name in ((MemoryStore, "put_if_absent"), (MemoryStore, "delete"), (MemoryUpload, "publish")):
        patch.setattr(kind, name, counted(getattr(kind, name)))
    return lambda: seen[0] > step
