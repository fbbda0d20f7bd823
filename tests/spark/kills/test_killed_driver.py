"""At which of its calls a driver kills itself."""

from __future__ import annotations

import os

import pytest

from sparklog.core.errors import KeyExists
from tests.spark.kills.killed_driver import die_at


class Killed(BaseException):
    """What SIGKILL is here."""


class Slots:
    """Takes what is put, unless another writer was first."""

    def __init__(self) -> None:
        self.landed = 0

    def put(self, *, taken: bool) -> None:
        if taken:
            raise KeyExists("wanted a free key, found one that is taken")
        self.landed += 1


@pytest.mark.parametrize(("when", "landed"), [("before", 1), ("after", 2)])
def test_a_put_that_lost_its_slot_is_not_counted(when: str, landed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(*given: int) -> None:
        raise Killed

    monkeypatch.setattr(os, "killpg", kill)
    monkeypatch.setattr(Slots, "put", Slots.put)  # puts it back at the end
    die_at(f"{__name__}:Slots.put", when, 2)
    slots = Slots()
    with pytest.raises(KeyExists):
        slots.put(taken=True)
    slots.put(taken=False)
    with pytest.raises(Killed):
        slots.put(taken=False)
    assert slots.landed == landed
