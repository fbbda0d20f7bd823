"""Texts that UTF-8 can't encode are refused with our own words."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidInput, InvalidRecord
from sparklog.core.texts.user_text import is_encodable, utf8_of


def test_a_text_is_its_utf_8() -> None:
    assert utf8_of("é😀", "value") == "é😀".encode()
    assert is_encodable("é😀")
    assert is_encodable("")


@pytest.mark.parametrize("text", ["a\ud83d", "a\ude00\ud83d"])
def test_half_of_a_surrogate_pair_is_named_with_its_place(text: str) -> None:
    assert not is_encodable(text)
    with pytest.raises(InvalidRecord, match=rf"^INVALID_RECORD: value: .* U\+D[8CE].*, at character 2 of {len(text)}"):
        utf8_of(text, "value")
    with pytest.raises(InvalidInput, match=r"^INVALID_REQUEST: metadata: "):
        utf8_of(text, "metadata", InvalidInput)
