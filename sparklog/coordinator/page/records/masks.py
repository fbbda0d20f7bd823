"""Masks: rules that keep parts of records from a page. They are applied to the bytes before anything else sees them.

    customers                        the values of a topic
    pay-*:card.number                a field of its JSON values, here of all topics that begin so
    orders:lines.price               lists on the way are passed: this is the price of every line
    customers:#key                   the keys
    customers:#headers               the values of the headers

A value of a topic with a rule for fields is masked as a whole if it is no JSON object or list, and so is a part of it
that is neither where the path goes on. A key may also hold several steps of the path, as in {"card.number": 4}.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from sparklog.core.errors import InvalidConfig
from sparklog.core.names.topic_names import MAX_LENGTH

MASKED: Final = "••••"
KEY, HEADERS = "#key", "#headers"
_TOPICS: Final = re.compile(r"[a-zA-Z0-9._-]*\*?")


class MaskRule(msgspec.Struct, frozen=True):
    """A part of the records of a topic, or of all topics that begin with what is before a `*`. No `path`: the value."""

    topics: str
    path: str = ""

    def covers(self, topic: str) -> bool:
        """True if the rule is for this topic."""
        return topic.startswith(self.topics[:-1]) if self.topics.endswith("*") else topic == self.topics


class Mask(msgspec.Struct, frozen=True):
    """The rules of one topic, added up. `fields` are paths of JSON values."""

    key: bool = False
    value: bool = False
    headers: bool = False
    fields: tuple[tuple[str, ...], ...] = ()

    @property
    def hides_values(self) -> bool:
        """True if anything of values is masked. Such values are not searched: a search would reveal them bit by bit."""
        return self.value or bool(self.fields)

    def of_value(self, value: bytes | None) -> bytes | None:
        """The value as it may be shown."""
        if value is None or not self.hides_values:
            return value
        if self.value:
            return MASKED.encode()
        try:
            document = msgspec.json.decode(value)
            if not isinstance(document, dict | list):
                return MASKED.encode()
            for field in self.fields:
                document = _masked(document, field)
            return msgspec.json.encode(document)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return MASKED.encode()

    def of_key(self, key: bytes | None) -> bytes | None:
        """The key as it may be shown."""
        return MASKED.encode() if self.key and key is not None else key

    def of_header(self, value: bytes | None) -> bytes | None:
        """The value of a header as it may be shown."""
        return MASKED.encode() if self.headers and value is not None else value


UNMASKED: Final = Mask()
# A path of jq, JSONPath or JSON Pointer would be taken and mask nothing.
_OTHER_LANGUAGE: Final = re.compile(r"[$\[\]/\s]")


def mask_rule(text: str) -> MaskRule:
    """The rule of a text like `customers:card.number`. Raises InvalidConfig."""
    topics, colon, path = text.strip().partition(":")
    wanted = f"wanted a rule like customers, pay-*:card.number or customers:{KEY}, found {text[:80]!r}"
    if not topics or len(topics) > MAX_LENGTH or _TOPICS.fullmatch(topics) is None:
        raise InvalidConfig(wanted)
    if (colon and not path) or (path.startswith("#") and path not in (KEY, HEADERS)):
        raise InvalidConfig(wanted)
    if path and ("" in path.split(".") or _OTHER_LANGUAGE.search(path) is not None):
        raise InvalidConfig(wanted)
    return MaskRule(topics, path)


def mask_of(rules: Iterable[MaskRule], topic: str) -> Mask:
    """Return the rules of a topic, added up."""
    paths = {rule.path for rule in rules if rule.covers(topic)}
    fields = sorted(tuple(path.split(".")) for path in paths - {"", KEY, HEADERS})
    return Mask(KEY in paths, "" in paths, HEADERS in paths, tuple(fields))


def _masked(node: Any, path: tuple[str, ...]) -> Any:
    """This node of a document, with what is at the path below it masked."""
    if not path:
        return MASKED
    if isinstance(node, list):
        return [_masked(element, path) for element in node]
    if isinstance(node, dict):
        masked = dict(node)
        for steps in range(1, len(path) + 1):
            key = ".".join(path[:steps])
            if key in masked:
                masked[key] = _masked(masked[key], path[steps:])
        return masked
    return None if node is None else MASKED
