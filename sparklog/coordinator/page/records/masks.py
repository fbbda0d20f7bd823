"""Masks: rules that hide parts of records from a page. They are applied to the bytes before anything formats them.

    customers                        the values of a topic
    pay-*:card.number                a field of JSON values, here in all topics whose names begin with pay-
    orders:lines.price               a path passes through lists: this is the price of every line
    customers:#key                   the keys
    customers:#headers               the values of the headers

In a topic with a rule for a field, a value that is not a JSON object or list is masked as a whole. If a path continues
past a string, number or boolean, as `card.number` does in {"card": 4}, that part is masked. Several steps of a path may
be one key of an object, as in {"card.number": 4}.
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
    """A rule that masks a part of the records of some topics.

    `topics`: the name of a topic, or a prefix of names with `*` after it. `path` says which part is masked: "" for the
    whole value, `#key` for the key, `#headers` for the values of the headers, or else the path of a field in JSON
    values.
    """

    topics: str
    path: str = ""

    def covers(self, topic: str) -> bool:
        """True if the rule is for this topic."""
        return topic.startswith(self.topics[:-1]) if self.topics.endswith("*") else topic == self.topics


class Mask(msgspec.Struct, frozen=True):
    """All rules for one topic. `key`, `value`, `headers`: True if these are masked as a whole.

    `fields`: the masked parts of JSON values; each is a path, from the outermost key inwards.
    """

    key: bool = False
    value: bool = False
    headers: bool = False
    fields: tuple[tuple[str, ...], ...] = ()

    @property
    def hides_values(self) -> bool:
        """True if any part of values is masked. Then values can't be searched: guesses would reveal the masked part."""
        return self.value or bool(self.fields)

    def of_value(self, value: bytes | None) -> bytes | None:
        """The value with the masked parts replaced by MASKED; None stays None.

        A value that can't be decoded as a JSON object or list is replaced as a whole if any field is masked.
        """
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
        """The key, or MASKED if keys are masked; None stays None."""
        return MASKED.encode() if self.key and key is not None else key

    def of_header(self, value: bytes | None) -> bytes | None:
        """The value of a header, or MASKED if headers are masked; None stays None."""
        return MASKED.encode() if self.headers and value is not None else value


UNMASKED: Final = Mask()
# A path of jq, JSONPath or JSON Pointer would be accepted, but mask nothing.
_OTHER_LANGUAGE: Final = re.compile(r"[$\[\]/\s]")


def mask_rule(text: str) -> MaskRule:
    """Parse a rule like `customers:card.number`. Raises InvalidConfig if it is malformed."""
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
    """Return the mask of a topic, which combines the rules that apply to the topic."""
    paths = {rule.path for rule in rules if rule.covers(topic)}
    fields = sorted(tuple(path.split(".")) for path in paths - {"", KEY, HEADERS})
    return Mask(KEY in paths, "" in paths, HEADERS in paths, tuple(fields))


def _masked(node: Any, path: tuple[str, ...]) -> Any:
    """The `node` of a JSON document, with everything at `path` (seen from the node) masked."""
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
