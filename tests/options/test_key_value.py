"""KEY=VALUE arguments."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidOption
from sparklog.options.key_value import key_values


@pytest.mark.parametrize("given", [["a"], ["=b"], ["a=1", "a=2"]])
def test_what_is_not_key_and_value_is_refused(given: list[str]) -> None:
    with pytest.raises(InvalidOption, match="-c: "):
        key_values(given, "-c")


def test_a_value_may_hold_an_equals_sign_and_may_be_empty() -> None:
    assert key_values(["a=b=c", "d="], "-c") == {"a": "b=c", "d": ""}
