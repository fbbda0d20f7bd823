"""A part between marks is replaced as a whole, and only where both marks are."""

from __future__ import annotations

import pytest

from tests.marked_part import replaced


def test_only_what_is_between_the_marks_is_replaced() -> None:
    text = "head\n<begin>\nold\nlines\n<end>\ntail <end>\n"
    once = replaced(text, "<begin>", "<end>", "new")
    assert once == "head\n<begin>\nnew\n<end>\ntail <end>\n"
    assert replaced(once, "<begin>", "<end>", "new") == once
    assert replaced("<begin>\n<end>\n", "<begin>", "<end>", "new") == "<begin>\nnew\n<end>\n"


@pytest.mark.parametrize("text", ["", "<begin>\nold\n", "old\n<end>\n", "<end>\n<begin>\n"])
def test_a_missing_mark_is_an_error_and_not_a_page_that_is_cut_off(text: str) -> None:
    with pytest.raises(ValueError, match="found no such pair"):
        replaced(text, "<begin>", "<end>", "new")
