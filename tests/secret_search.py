"""Looks for secrets in texts and bytes, in each form in which one text carries another."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator, Mapping

_PIECE = 12  # so much of a secret counts as all of it: messages are cut


def new_secret(what: str) -> str:
    """A secret that is nowhere else, with characters that URLs, JSON, XML and base64 write differently."""
    return f'{what}/+"{uuid.uuid4().hex}'


def leaks(texts: Iterable[tuple[str, str | bytes]], secrets: Mapping[str, str]) -> set[tuple[str, str]]:
    """(where, whose name) of each secret that stands in a text. Raises AssertionError for a text that is empty."""
    wanted = {name: forms(secret) for name, secret in secrets.items()}
    found = set()
    for where, text in texts:
        body = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        assert body, f"{where}: there is nothing to look through"
        found |= {(where, name) for name, each in wanted.items() if any(form in body for form in each)}
    return found


def forms(secret: str) -> set[bytes]:
    """The secret, and each part of it of _PIECE characters, as they may be written."""
    pieces = (secret[at : at + _PIECE] for at in range(0, len(secret) - _PIECE + 1, _PIECE))
    return {form.encode() for piece in pieces for form in _written(piece)} | set(_base64(secret.encode()))


def _written(text: str) -> Iterator[str]:
    yield text
    yield urllib.parse.quote(text, safe="")
    yield urllib.parse.quote(text)
    yield json.dumps(text)[1:-1]
    yield json.dumps(json.dumps(text)[1:-1])[1:-1]  # JSON in JSON, as in Spark's events
    yield json.dumps(text)[1:-1].replace("/", "\\/")
    yield html.escape(text)
    yield text.encode().hex()


def _base64(secret: bytes) -> Iterator[bytes]:
    """What of the secret is seen in the base64 of anything that holds it: it may begin at each of three places."""
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + secret)
        first = (before * 8 + 5) // 6  # characters before are of other bytes, too
        last = (before + len(secret)) * 8 // 6  # and those from here on
        yield whole[first:last]
        yield base64.urlsafe_b64encode(b"\0" * before + secret)[first:last]
