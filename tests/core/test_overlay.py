"""A map laid over another: it behaves as a dict does, and the one below never changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.overlay import OverlayMap

KEYS = st.integers(0, 4)
STEPS = st.lists(st.tuples(st.sampled_from(["set", "delete", "pop", "clear", "setdefault"]), KEYS, st.integers(0, 99)))


def step(target: dict[int, int] | OverlayMap[int, int], what: str, key: int, value: int) -> object:
    """What the step gives; KeyError as a value."""
    try:
        match what:
            case "set":
                target[key] = value
            case "delete":
                del target[key]
            case "pop":
                return target.pop(key)
            case "clear":
                target.clear()
            case _:
                return target.setdefault(key, value)
    except KeyError as error:
        return error.args
    return None


@given(st.dictionaries(KEYS, st.integers(0, 99)), STEPS, STEPS)
def test_any_steps_lead_to_what_a_dict_would_hold(
    below: dict[int, int], steps: list[tuple[str, int, int]], above: list[tuple[str, int, int]]
) -> None:
    kept, model = dict(below), dict(below)
    overlay: OverlayMap[int, int] = OverlayMap(below)
    for each in steps:
        assert step(overlay, *each) == step(model, *each)
    second: OverlayMap[int, int] = OverlayMap(overlay)  # a fork of a fork
    middle = dict(model)
    for each in above:
        assert step(second, *each) == step(model, *each)
    for found, wanted in ((below, kept), (overlay, middle), (second, model)):
        assert dict(found) == wanted
        assert (len(found), set(found)) == (len(wanted), set(wanted))
        assert [key in found for key in range(5)] == [key in wanted for key in range(5)]
        assert [found.get(key) for key in range(5)] == [wanted.get(key) for key in range(5)]


def test_a_key_that_is_gone_is_gone_until_it_is_set_again() -> None:
    overlay = OverlayMap({1: "below"})
    del overlay[1]
    with pytest.raises(KeyError):
        overlay[1]
    with pytest.raises(KeyError):
        del overlay[1]
    overlay[1] = "own"
    assert (overlay[1], len(overlay)) == ("own", 1)
