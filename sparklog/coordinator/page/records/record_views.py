"""The content of the page of a topic's records, and the same records as lines of JSON."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any, Final

import msgspec
import pyarrow as pa

from sparklog.client.describe.record_rows import record_rows
from sparklog.coordinator.page.records.masks import UNMASKED, Mask
from sparklog.coordinator.page.records.record_batches import ordered, sizes
from sparklog.coordinator.page.records.record_query import (
    COUNTS,
    KeyForm,
    Order,
    RecordQuery,
    ValueFormat,
    address_of_records,
)
from sparklog.coordinator.page.records.record_reading import RecordsFound
from sparklog.coordinator.page.records.record_text import ShownBytes, shown_bytes
from sparklog.core.describe.readable import amount, counted, point_in_time_us
from sparklog.core.lookup import topic_of
from sparklog.core.state import ClusterState

_SHOWN_HEADERS: Final = 50  # of one record
_SHOWN_NOTES: Final = 8
_MOST_COMMANDS: Final = 8
_encoder = msgspec.json.Encoder()


class RecordRow(msgspec.Struct, frozen=True):
    """A record, formatted. `more_headers`: the number of its headers that are left out.

    `size_bytes` counts key, value and headers. It is None if any part of the topic's records is masked, because the
    size may reveal the masked part.
    """

    partition: int
    offset: int
    time_ms: int
    time: str
    key: ShownBytes
    value: ShownBytes
    headers: list[tuple[str, ShownBytes]]
    more_headers: int
    size_bytes: int | None


class PageLink(msgspec.Struct, frozen=True):
    """A link to another page of records; `relation` is prev or next."""

    text: str
    address: str
    relation: str = ""


def record_page(
    state: ClusterState, topic: str, query: RecordQuery, mask: Mask, result: RecordsFound | None, problem: str
) -> dict[str, Any]:
    """The content of the page. `result` is None if nothing was read; then `problem` is the reason, else "".

    Raises UnknownTopicOrPartition.
    """
    known = topic_of(state, topic)
    rows = [] if result is None else record_row_list(ordered(result.tables, query.order), mask, query.value_format)
    return {
        "topic": topic,
        "address": address_of_records(topic),
        "partitions": known.partitions,
        "query": query,
        "value_formats": list(ValueFormat),
        "key_forms": list(KeyForm),
        "counts": sorted({*COUNTS, query.count}),
        "records": rows,
        "problem": problem,
        "notes": [*([] if result is None else _first(result.notes)), *mask_notes(mask, query)],
        "searched": "" if result is None else summary(query, result),
        "links": [] if result is None else links(topic, query, result),
        "download": "" if result is None else download_address(topic, query, result),
        "live": query.beginning(live=True, order=Order.NEWEST).address(topic),
        "command": consume_command(topic, query, result),
    }


def record_row_list(records: pa.Table | None, mask: Mask, value_format: ValueFormat) -> list[RecordRow]:
    """Format the records of one page; [] for None."""
    if records is None:
        return []
    stamps = records.column("timestamp").cast(pa.int64()).to_pylist()
    names = ("partition", "offset", "key", "value", "headers")
    columns = [records.column(name).to_pylist() for name in names]
    return [
        RecordRow(
            partition,
            offset,
            stamp_us // 1000,
            point_in_time_us(stamp_us),
            shown_bytes(mask.of_key(key), value_format),
            shown_bytes(mask.of_value(value), value_format),
            [
                (header["key"], shown_bytes(mask.of_header(header["value"]), value_format))
                for header in (headers or ())[:_SHOWN_HEADERS]
            ],
            max(0, len(headers or ()) - _SHOWN_HEADERS),
            None if mask != UNMASKED else size,
        )
        for stamp_us, partition, offset, key, value, headers, size in zip(
            stamps, *columns, sizes(records).tolist(), strict=True
        )
    ]


def json_lines(topic: str, query: RecordQuery, mask: Mask, result: RecordsFound) -> bytes:
    """The records in the format of `sparklog consume --format json`, in the order of the page.

    Keys, values and headers are in hexadecimal if `query.value_format` is HEX, else text: masked, but never cut.
    """

    def text(value: bytes | None) -> str | None:
        if value is None:
            return None
        return value.hex() if query.value_format is ValueFormat.HEX else value.decode(errors="replace")

    records = ordered(result.tables, query.order)
    if records is None:
        return b""
    rows = record_rows(
        records,
        topic,
        lambda key: text(mask.of_key(key)),
        lambda value: text(mask.of_value(value)),
        lambda value: text(mask.of_header(value)),
    )
    return _encoder.encode_lines(rows)


def summary(query: RecordQuery, result: RecordsFound) -> str:
    """A text on how much was read: records, bytes, and the offsets of one partition or the number of partitions.

    If a limit ended the reading, the text names it.
    """
    verb = "searched" if query.searches else "read"
    read = [covered for covered in result.covered if covered.start < covered.end]
    records, where = _searched(result), ""
    if len(read) == 1:
        where = f", from offset {read[0].start} to {read[0].end - 1} of partition {read[0].partition}"
    elif read:
        where = f" of {counted(len(read), 'partition')}"
    ended = f"; {result.stopped} is the limit for one page" if result.stopped else ""
    return f"{verb} {counted(records, 'record')}, {amount(result.size_bytes)}{where}{ended}"


def _searched(result: RecordsFound) -> int:
    """The number of records that were read for the page; of a page of one partition, only those between its offsets."""
    read = [covered for covered in result.covered if covered.start < covered.end]
    if len(read) != 1:
        return result.searched
    return min(result.searched, read[0].end - read[0].start)  # others were read, but the page ends before them


def mask_notes(mask: Mask, query: RecordQuery) -> list[str]:
    """Sentences on the masked parts, and on the parts that a search leaves out because they are masked."""
    hidden = [
        name
        for name, is_hidden in (("keys", mask.key), ("values", mask.value), ("header values", mask.headers))
        if is_hidden
    ]
    hidden += [f"the field {'.'.join(field)} of values" for field in mask.fields]
    notes = [f"masked by a rule of this coordinator: {', '.join(hidden)}"] if hidden else []
    if (query.find and (mask.hides_values or mask.key)) or (query.searches_key and mask.key):
        unsearched = [name for name, hides in (("keys", mask.key), ("values", mask.hides_values)) if hides]
        notes.append(f"a search does not look into {' and '.join(unsearched)} of this topic, because they are masked")
    return notes


def _first(notes: list[str]) -> list[str]:
    """The first _SHOWN_NOTES notes, and a last note with the number of notes that are left out, if any are."""
    left = len(notes) - _SHOWN_NOTES
    return notes if left <= 0 else [*notes[:_SHOWN_NOTES], f"and {counted(left, 'more sentence')} like these"]


def links(topic: str, query: RecordQuery, result: RecordsFound) -> list[PageLink]:
    """Links to the pages before and after this one, as far as there are any; none on a live page."""
    if query.live:
        return []
    newest_first = query.order is Order.NEWEST
    pages = []
    for relation, down in (("prev", not newest_first), ("next", newest_first)):
        at = result.at(down=down)
        if at is None:
            continue
        continues = result.stopped and down is query.reads_down
        text = "Continue" if continues else {"prev": "Previous", "next": "Next"}[relation]
        text += ": older records" if down else ": newer records"
        pages.append(PageLink(text, query.next_page(at, down=down).address(topic), relation))
    return pages


def download_address(topic: str, query: RecordQuery, result: RecordsFound) -> str:
    """The address of this page's records as lines of JSON: the same records, even if newer ones arrive meanwhile."""
    down = query.reads_down
    at = tuple((covered.partition, covered.end if down else covered.start) for covered in result.covered)
    return query.next_page(at, down=down).address(topic, format="jsonl")


def consume_command(topic: str, query: RecordQuery, result: RecordsFound | None) -> str:
    """The command line that prints the records of this page, partition by partition; "" if there is none.

    There is none for a search that left records out, because a command does not search, nor for a page with records of
    more than `_MOST_COMMANDS` partitions. On a live page, the command prints only new records, as they arrive.
    """
    command = f"sparklog consume {shlex.quote(topic)}"
    if query.live:
        return f"{command} --offset end --follow"
    records = None if result is None else ordered(result.tables, Order.OLDEST)
    if result is None or records is None or (query.searches and records.num_rows < _searched(result)):
        return ""
    of_partition = Counter(records.column("partition").to_pylist())
    first = {covered.partition: covered.start for covered in result.covered}
    if len(of_partition) > _MOST_COMMANDS:
        return ""
    return "; ".join(
        f"{command} --partition {partition} --offset {first[partition]} --num {count} --format json"
        for partition, count in sorted(of_partition.items())
    )
