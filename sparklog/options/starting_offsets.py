"""The start and end of a read: the grammar of Spark's Kafka options for offsets, timestamps and partitions.

    "earliest" | "latest"                                   every partition
    {"orders": {"0": 23, "1": -2}, "bills": {"0": -1}}      an offset per partition; -1 latest, -2 earliest
    1735689600000 | "2025-01-01T00:00:00Z"                  every partition: ms since the epoch, or ISO 8601 with zone
    {"orders": {"0": 1735689600000, "1": "2025-01-01T00:00:00+01:00"}}
    {"orders": [0, 1], "bills": [2]}                        partitions (`assign`)

Source: Spark's `KafkaSourceProvider.getKafkaOffsetRangeLimit` and `JsonUtils`; ISO 8601 is sparklog's addition. Parsing
does not check that partitions exist, or that an offset is in the log.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from sparklog.core.config.key import LONG_MAX, read_integer, shown
from sparklog.core.describe.readable import point_in_time_us
from sparklog.core.errors import InvalidOption
from sparklog.core.types import Offset, PartitionIndex

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = -1
_EARLIEST: Final = -2
_NUMBERS: Final = {"earliest": _EARLIEST, "latest": _LATEST}

FROM_EARLIEST: Final = ("earliest",)  # the words at which a batch may start
TO_LATEST: Final = ("latest",)  # the words at which a batch may end
ANY_WORD: Final = ("earliest", "latest")
TIMESTAMPS_EXAMPLE: Final = '{"topicA":{"0":1735689600000,"1":"2025-01-01T00:00:00Z"}}'
PARTITIONS_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[2]}'
_TIMESTAMP_FORM: Final = "milliseconds since the epoch, or ISO 8601 with a zone like 2025-01-01T00:00:00Z"


class Earliest(msgspec.Struct, frozen=True):
    """A start or end at the log start."""


class Latest(msgspec.Struct, frozen=True):
    """A start or end at the high watermark."""


class AtOffset(msgspec.Struct, frozen=True):
    """A start or end at this offset."""

    offset: Offset


class AtTimestamp(msgspec.Struct, frozen=True):
    """A start or end at the first record, by offset, whose timestamp is >= `timestamp_us` (since the epoch, UTC)."""

    timestamp_us: int


# Where the read of a partition begins or ends.
ReadBound = Earliest | Latest | AtOffset | AtTimestamp


class EveryPartition(msgspec.Struct, frozen=True):
    """One bound for every partition that is read."""

    bound: ReadBound

    def at(self, topic: str, partition: int) -> ReadBound:
        """Return the bound, which is the same in each partition."""
        return self.bound


class PerPartition(msgspec.Struct, frozen=True):
    """A bound for each partition, by topic and partition. It must name exactly the partitions that are read."""

    bounds: Mapping[str, Mapping[PartitionIndex, ReadBound]]

    def at(self, topic: str, partition: int) -> ReadBound:
        """Return the bound in this partition. Raises KeyError if it has none: call `check_names_all` first."""
        return self.bounds[topic][PartitionIndex(partition)]

    def partitions(self) -> set[tuple[str, PartitionIndex]]:
        """All (topic, partition) pairs that have a bound."""
        return {(topic, partition) for topic, by_partition in self.bounds.items() for partition in by_partition}


OffsetSpec = EveryPartition | PerPartition


def offsets_form(words: Sequence[str]) -> str:
    """Return words for the legal values of an option for offsets, to follow "wanted" in an error.

    `words`: earliest, latest or both, as the option allows.
    """
    first, last = _NUMBERS[words[0]], _NUMBERS[words[-1]]
    return f"{', '.join(words)} or offsets by partition like " + (
        f'{{"topicA":{{"0":23,"1":{last}}},"topicB":{{"0":{first}}}}}'
    )


def parse_offsets(option: str, text: str, words: Sequence[str] = ANY_WORD) -> OffsetSpec:
    """Parse `text`, the value of the option named `option`: `earliest`, `latest` or offsets by partition.

    `words`: earliest, latest or both, as the option allows; errors suggest only these. A word that the option does not
    allow is parsed too, because `check_batch_range` refuses it with a better error. Raises `InvalidOption`, which names
    the option.
    """
    word = text.strip().lower()
    if word == "earliest":
        return EveryPartition(Earliest())
    if word == "latest":
        return EveryPartition(Latest())
    wanted = offsets_form(words)
    table = _by_topic(option, text, wanted)
    return PerPartition(
        {
            topic: {
                partition: _offset_bound(f"{option}: {topic}-{partition}", value, words)
                for partition, value in _by_partition(option, topic, inner, wanted)
            }
            for topic, inner in table.items()
        }
    )


def parse_timestamps(option: str, text: str) -> PerPartition:
    """Parse `text`, the value of the option named `option`: timestamps by partition. Raises `InvalidOption`."""
    wanted = f"timestamps by partition like {TIMESTAMPS_EXAMPLE}"
    table = _by_topic(option, text, wanted)
    return PerPartition(
        {
            topic: {
                partition: AtTimestamp(parse_timestamp_us(f"{option}: {topic}-{partition}", value))
                for partition, value in _by_partition(option, topic, inner, wanted)
            }
            for topic, inner in table.items()
        }
    )


def parse_timestamp(option: str, text: str) -> EveryPartition:
    """Parse `text`, the value of the option named `option`: a timestamp for all partitions. Raises `InvalidOption`."""
    return EveryPartition(AtTimestamp(parse_timestamp_us(option, text)))


def parse_timestamp_us(where: str, raw: object) -> int:
    """Return the microseconds since the epoch for `raw`: milliseconds, or ISO 8601 text with a zone.

    Digits finer than microseconds are cut off. A number of milliseconds whose microseconds do not fit into 64 bits
    becomes the greatest number that does. Raises `InvalidOption`, whose message begins with `where`.
    """
    milliseconds = read_integer(raw, 64) if isinstance(raw, (int, str)) else None
    if milliseconds is not None:
        if milliseconds < 0:
            raise InvalidOption(f"{where}: wanted a timestamp >= 0 ({_TIMESTAMP_FORM}), found {shown(raw)}")
        return min(milliseconds * 1000, LONG_MAX)
    try:
        moment = datetime.fromisoformat(raw.strip()) if isinstance(raw, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise InvalidOption(f"{where}: wanted {_TIMESTAMP_FORM}, found {shown(raw)}")
    if moment.tzinfo is None:
        raise InvalidOption(
            f"{where}: wanted a time with its zone, found {shown(raw)} without: append Z for UTC, or a zone like +02:00"
        )
    return (moment - _EPOCH) // timedelta(microseconds=1)


def parse_partitions(option: str, text: str) -> dict[str, tuple[PartitionIndex, ...]]:
    """Parse `text`, the value of the option named `option`, such as `assign`: the partitions to read of each topic.

    Returns each topic's partitions in ascending order. Raises `InvalidOption`, which names the option.
    """
    wanted = f"partitions by topic like {PARTITIONS_EXAMPLE}"
    parsed: dict[str, tuple[PartitionIndex, ...]] = {}
    for topic, inner in _by_topic(option, text, wanted).items():
        if not isinstance(inner, list) or not inner:
            raise InvalidOption(f"{option}: wanted {wanted}, found {shown(inner)} for topic {topic!r}")
        numbers = [_partition(raw) for raw in inner]
        partitions = sorted({number for number in numbers if number is not None})
        if len(partitions) != len(inner):
            raise InvalidOption(
                f"{option}: wanted partition numbers from 0, each once, found {shown(inner)} for topic {topic!r}"
            )
        parsed[topic] = tuple(partitions)
    return parsed


def check_batch_range(start_option: str, start: OffsetSpec, end_option: str, end: OffsetSpec) -> None:
    """Raise `InvalidOption` for a range that no batch can have, in any cluster.

    These ranges are a start at latest, an end at earliest, an end before its start (both offsets or both timestamps),
    and a start and an end that name different partitions.
    """
    _refuse_bound(
        start_option,
        start,
        Latest,
        f"a batch read can't start at latest (-1): wanted {offsets_form(FROM_EARLIEST)}, or a startingTimestamp",
    )
    _refuse_bound(
        end_option,
        end,
        Earliest,
        f"a batch read can't end at earliest (-2): wanted {offsets_form(TO_LATEST)}, or an endingTimestamp",
    )
    if isinstance(start, PerPartition) and isinstance(end, PerPartition):
        if start.partitions() != end.partitions():
            raise InvalidOption(
                f"{start_option} and {end_option}: wanted the same topic-partitions in both, found only in "
                f"{start_option}: {_named(start.partitions() - end.partitions())}; only in "
                f"{end_option}: {_named(end.partitions() - start.partitions())}"
            )
        for topic, partition in sorted(start.partitions()):
            place = f"{topic}-{partition}"
            _check_order(start_option, start.at(topic, partition), end_option, end.at(topic, partition), place)
    elif isinstance(start, EveryPartition) and isinstance(end, EveryPartition):
        _check_order(start_option, start.bound, end_option, end.bound, "all partitions")


def check_names_all(option: str, spec: OffsetSpec, partitions: Collection[tuple[str, int]]) -> None:
    """Raise `InvalidOption` if `spec` is by partition, but not for exactly the `partitions` to read."""
    if isinstance(spec, PerPartition) and spec.partitions() != set(partitions):
        read = {(topic, PartitionIndex(partition)) for topic, partition in partitions}
        raise InvalidOption(
            f"{option}: wanted every partition that is read and no other (-1 stands for latest, -2 for earliest), "
            f"found missing: {_named(read - spec.partitions())}; not read: {_named(spec.partitions() - read)}"
        )


def _by_topic(option: str, text: str, wanted: str) -> dict[str, object]:
    try:
        table = json.loads(text, object_pairs_hook=_unique)
    except _KeyTwice as twice:
        raise InvalidOption(f"{option}: wanted each key once, found {twice.key!r} twice in {shown(text)}") from None
    except ValueError:
        table = None
    if not isinstance(table, dict) or not table:
        raise InvalidOption(f"{option}: wanted {wanted}, found {shown(text)}")
    return table


def _by_partition(option: str, topic: str, inner: object, wanted: str) -> Iterable[tuple[PartitionIndex, object]]:
    if not isinstance(inner, dict) or not inner:
        raise InvalidOption(f"{option}: wanted {wanted}, found {shown(inner)} for topic {topic!r}")
    for key, value in inner.items():
        partition = _partition(key)
        if partition is None:
            raise InvalidOption(f"{option}: wanted partition numbers from 0, found {key!r} for topic {topic!r}")
        yield partition, value


class _KeyTwice(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table: dict[str, object] = {}
    for key, value in pairs:
        if key in table:
            raise _KeyTwice(key)
        table[key] = value
    return table


def _partition(raw: object) -> PartitionIndex | None:
    """A partition number from JSON, or None if `raw` isn't one.

    Text must be the number's plain digits, so that no two keys mean the same partition.
    """
    value = read_integer(raw, 32) if isinstance(raw, (int, str)) else None
    return PartitionIndex(value) if value is not None and value >= 0 and str(value) == str(raw) else None


def _offset_bound(where: str, raw: object, words: Sequence[str]) -> ReadBound:
    value = read_integer(raw, 64) if isinstance(raw, (int, str)) else None
    if value is None or value < _EARLIEST:
        legal = " or ".join(f"{_NUMBERS[word]} ({word})" for word in reversed(words))
        raise InvalidOption(
            f"{where}: wanted an offset >= 0{', ' if len(words) > 1 else ' or '}{legal}, found {shown(raw)}"
        )
    if value == _LATEST:
        return Latest()
    return Earliest() if value == _EARLIEST else AtOffset(Offset(value))


def _refuse_bound(option: str, spec: OffsetSpec, kind: type[ReadBound], reason: str) -> None:
    if isinstance(spec, EveryPartition):
        if isinstance(spec.bound, kind):
            raise InvalidOption(f"{option}: {reason}")
        return
    for topic, partition in sorted(spec.partitions()):
        if isinstance(spec.at(topic, partition), kind):
            raise InvalidOption(f"{option}: {topic}-{partition}: {reason}")


def _check_order(start_option: str, start: ReadBound, end_option: str, end: ReadBound, place: str) -> None:
    if isinstance(start, AtOffset) and isinstance(end, AtOffset) and start.offset > end.offset:
        raise InvalidOption(
            f"{start_option} and {end_option}: wanted a start not after the end, "
            f"found start offset {start.offset} > end offset {end.offset} for {place}"
        )
    if isinstance(start, AtTimestamp) and isinstance(end, AtTimestamp) and start.timestamp_us > end.timestamp_us:
        raise InvalidOption(
            f"{start_option} and {end_option}: wanted a start not after the end, "
            f"found start {point_in_time_us(start.timestamp_us)} > end {point_in_time_us(end.timestamp_us)} for {place}"
        )


def _named(partitions: Iterable[tuple[str, int]]) -> str:
    names = [f"{topic}-{partition}" for topic, partition in sorted(partitions)]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more if names else "none"
