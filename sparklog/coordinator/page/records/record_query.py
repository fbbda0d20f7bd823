"""The query in the address of a page: the records of a topic that it shows. The server keeps no state between pages.

A page covers a range of offsets of each partition. The links to the next and the previous page contain the offset at
the end of each range (`at`), and the direction of reading (`back`: opposite to the order in which the page is shown).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from sparklog.core.config.key import LONG_MAX
from sparklog.core.errors import InvalidInput
from sparklog.options.starting_offsets import parse_timestamp_us

COUNTS: Final = (25, 50, 100, 250)  # records on a page, to choose from
MOST_COUNT: Final = 500
MOST_PARTITIONS: Final = 100  # read for one page
MOST_CHARACTERS: Final = 500  # of a search text
_DIGITS: Final = 19

Choice = TypeVar("Choice", bound=StrEnum)


class Order(StrEnum):
    """The order of records on a page: the newest or the oldest first."""

    NEWEST = "newest"
    OLDEST = "oldest"


class ValueFormat(StrEnum):
    """The format of keys, values and headers. AUTO: indented if JSON, as text if printable UTF-8, else hexadecimal.

    JSON is the same as AUTO. TEXT is always text, with replacement characters for bytes that are not UTF-8.
    """

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"


class KeyForm(StrEnum):
    """The ways to name a key: its text, its bytes in hexadecimal, an empty key, or none at all."""

    TEXT = "text"
    HEX = "hex"
    EMPTY = "empty"
    NULL = "null"


class RecordQuery(msgspec.Struct, frozen=True):
    """The records to show. `partition`: None for all. At most one of `offset`, `time` and `at` sets the beginning.

    `at`: pairs of a partition and an offset. `back`: read in the direction opposite to `order`. `find`: text to search
    for in values and keys; `key`: the whole key to search for, as `keyed` says; "" for no search. `live`: show the
    newest records, and read them again and again.
    """

    partition: int | None = None
    offset: int | None = None
    time: str = ""
    order: Order = Order.NEWEST
    count: int = 50
    find: str = ""
    key: str = ""
    value_format: ValueFormat = ValueFormat.AUTO
    at: tuple[tuple[int, int], ...] = ()
    back: bool = False
    live: bool = False
    keyed: KeyForm = KeyForm.TEXT

    @property
    def reads_down(self) -> bool:
        """True if the page is read from higher to lower offsets."""
        return (self.order is Order.NEWEST) is not self.back

    @property
    def searches(self) -> bool:
        """True if the page shows only records that match a search."""
        return bool(self.find) or self.searches_key

    @property
    def searches_key(self) -> bool:
        """True if the page shows only records with one key."""
        return bool(self.key) or self.keyed in (KeyForm.EMPTY, KeyForm.NULL)

    @property
    def wanted_key(self) -> bytes | None:
        """The key to search for; None for records without a key. Raises InvalidInput if it is not hexadecimal."""
        if self.keyed is KeyForm.NULL:
            return None
        if self.keyed is not KeyForm.HEX:
            return self.key.encode()
        try:
            return bytes.fromhex(self.key)
        except ValueError:
            raise InvalidInput(f"key: wanted bytes in hexadecimal like 00ff, found {self.key[:80]!r}") from None

    @property
    def time_us(self) -> int | None:
        """The time to begin at, in microseconds; None if the query has no time. Raises InvalidOption if malformed."""
        return parse_timestamp_us("time", self.time[:MOST_CHARACTERS]) if self.time else None

    def address(self, topic: str, **extra: str) -> str:
        """The address of the page that shows this query's records of a topic; `extra` are further parameters."""
        default = RecordQuery()
        query = {name: text for name, text in _texts(self).items() if text != _texts(default)[name]}
        return f"{address_of_records(topic)}?{urlencode({**query, **extra})}".rstrip("?")

    def beginning(self, **changes: Any) -> RecordQuery:
        """The same query without `offset`, `time`, `at` and `back`, and with these changes."""
        return msgspec.structs.replace(self, **{"offset": None, "time": "", "at": (), "back": False, **changes})

    def next_page(self, at: tuple[tuple[int, int], ...], *, down: bool) -> RecordQuery:
        """Change this query to that of the next or previous page, which begins at the offsets `at`.

        That page reads towards lower offsets if `down`, else towards higher ones.
        """
        return self.beginning(at=at, back=(self.order is Order.NEWEST) is not down, live=False)


def address_of_records(topic: str) -> str:
    """The address of the page with a topic's newest records."""
    return f"/topics/{quote(topic, safe='')}/messages"


def query_of(given: Mapping[str, str]) -> RecordQuery:
    """Parse the query in the parameters of an address. Raises InvalidInput if a parameter is not valid.

    Empty parameters count as absent, because a form sends its empty fields too.
    """
    text = {name: value.strip() for name, value in given.items() if value.strip()}
    query = RecordQuery(
        _number(text, "partition", None, 2**31 - 1),
        _number(text, "offset", None, LONG_MAX - 1),
        text.get("time", ""),
        _choice(text, "order", Order.NEWEST),
        _number(text, "count", 50, MOST_COUNT, least=1),
        _short(given, "find"),
        _short(given, "key"),
        _choice(text, "as", ValueFormat.AUTO),
        _at(text.get("at", "")),
        text.get("back") == "1",
        text.get("live") == "1",
        _choice(text, "keyed", KeyForm.TEXT),
    )
    if query.key and query.keyed in (KeyForm.EMPTY, KeyForm.NULL):
        raise InvalidInput(f"key: wanted none beside keyed={query.keyed}, found {query.key[:80]!r}")
    if query.searches_key:
        _ = query.wanted_key  # refuses what is not hexadecimal
    if sum((query.offset is not None, bool(query.time), bool(query.at))) > 1:
        raise InvalidInput("an offset and a time: wanted at most one of them as the beginning")
    if query.partition is not None and any(partition != query.partition for partition, _ in query.at):
        raise InvalidInput(f"at: wanted an offset of partition {query.partition}, found {text['at'][:80]!r}")
    if query.time_us is not None and query.time_us < 0:
        raise InvalidInput(f"time: wanted a time since 1970, found {query.time[:80]!r}")
    return query.beginning(order=Order.NEWEST) if query.live else query


def _texts(query: RecordQuery) -> dict[str, str]:
    """The query as parameters of an address, including those that have their default values."""
    return {
        "partition": "" if query.partition is None else str(query.partition),
        "offset": "" if query.offset is None else str(query.offset),
        "time": query.time,
        "order": query.order,
        "count": str(query.count),
        "find": query.find,
        "key": query.key,
        "as": query.value_format,
        "at": ",".join(f"{partition}-{offset}" for partition, offset in query.at),
        "back": "1" if query.back else "",
        "live": "1" if query.live else "",
        "keyed": query.keyed,
    }


def _at(text: str) -> tuple[tuple[int, int], ...]:
    """Parse the offsets of partitions, as in `0-1200,1-1180`; () for "". Raises InvalidInput."""
    pairs = []
    for pair in text.split(",", MOST_PARTITIONS) if text else ():
        partition, _, offset = pair.partition("-")
        if not _is_number(partition) or not _is_number(offset) or int(offset) > LONG_MAX:
            raise InvalidInput(f"at: wanted partitions with offsets like 0-1200,1-1180, found {text[:80]!r}")
        pairs.append((int(partition), int(offset)))
    if len(pairs) > MOST_PARTITIONS or len(dict(pairs)) < len(pairs):
        raise InvalidInput(f"at: wanted each of at most {MOST_PARTITIONS} partitions once, found {text[:80]!r}")
    return tuple(pairs)


def _short(given: Mapping[str, str], name: str) -> str:
    """The parameter `name`, "" if it is absent; blanks at its ends are kept. Raises InvalidInput if it is too long."""
    text = given.get(name, "")
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"{name}: wanted at most {MOST_CHARACTERS} characters, found {len(text):,}")
    return text


Default = TypeVar("Default", int, None)


def _number(text: Mapping[str, str], name: str, default: Default, most: int, *, least: int = 0) -> int | Default:
    digits = text.get(name)
    if digits is None:
        return default
    if not _is_number(digits) or not least <= int(digits) <= most:
        raise InvalidInput(f"{name}: wanted a number from {least} to {most}, found {digits[:30]!r}")
    return int(digits)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


def _choice(text: Mapping[str, str], name: str, default: Choice) -> Choice:
    chosen = text.get(name, default)
    if chosen not in list(type(default)):
        raise InvalidInput(f"{name}: wanted {', '.join(type(default))}, found {chosen[:30]!r}")
    return type(default)(chosen)
