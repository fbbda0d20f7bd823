"""The search for secrets sees what is there: else a test that finds none says nothing."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Callable

import pytest

from tests.secret_search import leaks, new_secret

WRITTEN: dict[str, Callable[[str], str | bytes]] = {
    "plain": lambda secret: f"Authorization of {secret}, which",
    "bytes": lambda secret: b"\x00\xff" + secret.encode() + b"\xfe",
    "JSON": lambda secret: json.dumps({"key": [secret]}),
    "JSON in JSON": lambda secret: json.dumps(json.dumps({"key": secret})),
    "percent-encoded": lambda secret: "https://host/?" + urllib.parse.urlencode({"key": secret}),
    "XML": lambda secret: f"<Token>{html.escape(secret)}</Token>",
    "a part": lambda secret: f"found {secret[:26]}…",
    "the end": lambda secret: f"…{secret[-25:]}",
    "hexadecimal": lambda secret: secret.encode().hex(),
    "repr": lambda secret: repr({"key": secret}),
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_a_secret_is_found_however_it_is_written(written: Callable[[str], str | bytes]) -> None:
    secrets = {"one": new_secret("ONE"), "two": new_secret("TWO")}
    texts = [("clean", "nothing"), ("log", written(secrets["two"]))]
    assert leaks(texts, secrets) == {("log", "two")}


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "u", "us", "use", "user:", "\xff\xfe?"])
@pytest.mark.parametrize("after", ["", "@", "@h", "@host"])
def test_a_secret_is_found_in_base64_of_more_than_itself(
    encode: Callable[[bytes], bytes], before: str, after: str
) -> None:
    secret = new_secret("SECRET")
    assert leaks([("header", encode(f"{before}{secret}{after}".encode()))], {"key": secret}) == {("header", "key")}


def test_another_secret_is_not_taken_for_it_and_an_empty_text_is_no_proof() -> None:
    assert leaks([("log", new_secret("SECRET"))], {"key": new_secret("SECRET")}) == set()
    with pytest.raises(AssertionError, match="nothing to look through"):
        leaks([("log", "")], {"key": new_secret("SECRET")})
