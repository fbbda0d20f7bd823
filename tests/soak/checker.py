"""Whether a cluster kept its promises: journals of writers and readers, compared with the log that is there at the end.

acknowledged     each record is at the offset that its writer heard, once, on every replica
refused          nothing is there
unknown          all of the append is there once, or nothing
order            in each partition the records of a writer are in the order of its turns, but for turns of unknown
                 outcome of a writer without an identity: nothing keeps those from landing late
atomic           of an append over several partitions, all is there or nothing
read             a reader saw at each offset what is there at the end, and never saw the high watermark go back
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tests.soak.journal import Line

Log = Mapping[int, Sequence[str]]  # partition -> its values, from offset 0

IDENTIFIED = ("application", "producer")  # writers whose repeats are known; their names begin with their kind
VANISHED = ("OFFSET_OUT_OF_RANGE", "DATA_LOSS", "GAP", "CORRUPT_MESSAGE", "UNKNOWN_TOPIC_OR_PARTITION")


@dataclass
class History:
    """What happened, by the journals of all writers and readers, under their names."""

    writers: Mapping[str, Sequence[Line]]
    readers: Mapping[str, Sequence[Line]]
    counts: Counter[str] = field(default_factory=Counter)


def complaints(history: History, replicas: Mapping[str, Log]) -> list[str]:
    """All that is wrong. `replicas` has what is read from each store alone."""
    first = next(iter(replicas))
    log = replicas[first]
    wrong = [
        f"store {store}, partition {partition}: {_difference(values, log[partition])} beside store {first}"
        for store, of_store in replicas.items()
        for partition, values in of_store.items()
        if list(values) != list(log[partition])
    ]
    places = _places(log)
    for name, lines in history.writers.items():
        wrong += [f"writer {name}: {what}" for what in _of_writer(lines, log, places, history.counts)]
    wrong += _out_of_order(log, _late(history.writers))
    for name, lines in history.readers.items():
        wrong += [f"reader {name}: {what}" for what in _of_reader(lines, log, history.counts)]
    known = {value for lines in history.writers.values() for value in _begun(lines)}
    wrong += [f"nobody wrote {value!r}, found at {at}" for value, at in places.items() if value not in known]
    return wrong


def _of_writer(
    lines: Sequence[Line], log: Log, places: Mapping[str, list[tuple[int, int]]], counts: Counter[str]
) -> Iterator[str]:
    begun: dict[int, dict[int, list[str]]] = {}
    outcome: dict[int, Line] = {}
    for line in lines:
        if "begin" in line:
            begun[line["begin"]] = {int(at): values for at, values in line["values"].items()}
        for kind in ("acked", "refused", "unknown"):
            if kind in line:
                outcome[line[kind]] = line
    for turn, by_partition in begun.items():
        values = [value for of_partition in by_partition.values() for value in of_partition]
        there = [value for value in values if value in places]
        line = outcome.get(turn, {"unknown": turn})
        twice = [value for value in there if len(places[value]) > 1]
        if twice:
            yield f"turn {turn} {line}: {twice} is there more than once: {[places[value] for value in twice]}"
        if 0 < len(there) < len(values):
            yield f"turn {turn} {line}: only {there} of {values} are there"
        if "acked" in line:
            counts["acknowledged"] += len(values)
            for partition, start, count in line["ranges"]:
                kept = list(log[partition][start : start + count])
                if kept != by_partition[partition]:
                    wanted = by_partition[partition]
                    yield f"turn {turn}: acknowledged {wanted} at {start} of partition {partition}, found {kept}"
            if sum(count for _, _, count in line["ranges"]) != len(values):
                yield f"turn {turn}: acknowledged {line['ranges']} for {len(values)} records"
        elif "refused" in line:
            counts["refused"] += len(values)
            if there:
                yield f"turn {turn}: {line['error']}, but {there} are there"
        else:
            counts["unknown"] += len(values)
            counts["unknown, there"] += len(there)


def _of_reader(lines: Sequence[Line], log: Log, counts: Counter[str]) -> Iterator[str]:
    ends: dict[int, int] = {}
    for line in lines:
        if "hw" in line:
            partition, end = line["seen"], line["hw"]
            if end < ends.get(partition, 0):
                yield f"the high watermark of partition {partition} went from {ends[partition]} back to {end}"
            ends[partition] = max(end, ends.get(partition, 0))
            if end > len(log[partition]):
                yield f"the high watermark of partition {partition} was {end}, the log ends at {len(log[partition])}"
        elif "read" in line:
            partition, start, values = line["read"], line["start"], line["values"]
            counts["read"] += len(values)
            kept = list(log[partition][start : start + len(values)])
            if kept != values:
                yield f"partition {partition} from {start}: {_difference(values, kept)}"
        elif line.get("code") in VANISHED:
            yield f"{line['error']}"


def _late(writers: Mapping[str, Sequence[Line]]) -> set[tuple[str, int]]:
    """The turns that may land after later ones."""
    return {
        (name, turn)
        for name, lines in writers.items()
        if not name.startswith(IDENTIFIED)
        for turn in {line["begin"] for line in lines if "begin" in line}
        - {line[outcome] for line in lines for outcome in ("acked", "refused") if outcome in line}
    }


def _out_of_order(log: Log, late: Set[tuple[str, int]]) -> Iterator[str]:
    for partition, values in log.items():
        last: dict[str, tuple[int, int]] = {}
        for offset, value in enumerate(values):
            writer, turn, _, row = value.split("/")
            if (writer, int(turn)) in late:
                continue
            place = (int(turn), int(row))
            if place <= last.get(writer, (-1, -1)):
                yield f"partition {partition}, offset {offset}: {value} after turn and row {last[writer]}"
            last[writer] = place


def _begun(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        if "begin" in line:
            for values in line["values"].values():
                yield from values


def _places(log: Log) -> dict[str, list[tuple[int, int]]]:
    places: dict[str, list[tuple[int, int]]] = {}
    for partition, values in log.items():
        for offset, value in enumerate(values):
            places.setdefault(value, []).append((partition, offset))
    return places


def _difference(saw: Sequence[str], kept: Sequence[str]) -> str:
    """Where two pieces of a log begin to differ."""
    for at, (of_first, of_second) in enumerate(zip(saw, kept, strict=False)):
        if of_first != of_second:
            return f"{of_first!r}, {at} records on, differs from {of_second!r}"
    return f"{len(saw)} records, not {len(kept)}"
