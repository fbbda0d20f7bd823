"""Keys of headers that are not UTF-8: Java reads them as Python does."""

from __future__ import annotations

import random

from tests.jvm.java_program import run_java

PIECES = ["a", "é", "€", "\U0001f642"]
ODD = [0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF]


def bytes_of(dice: random.Random) -> bytes:
    """Whole characters, parts of them, and bytes that are in none."""
    whole = b"".join(dice.choice(PIECES).encode() for _ in range(dice.randrange(4)))
    return bytes(dice.choice([dice.choice(ODD), byte]) if dice.random() < 0.5 else byte for byte in whole)


def test_bytes_that_are_no_text_become_the_same_in_java_and_python() -> None:
    dice = random.Random(7)
    texts = [bytes_of(dice) for _ in range(3_000)] + [b"\xed\xa0\x80\xed\xb0\x80", b"\xed\xa0", b"\xed\x9f\xbf", b""]
    printed = run_java("arrow.Texts", *(f"c3{text.hex()}a9" for text in texts)).stdout.splitlines()
    for text, line in zip(texts, printed, strict=True):
        shown = text.decode(errors="replace")
        assert line == f"{str(shown.encode() == text).lower()} {shown.encode().hex()}", text
