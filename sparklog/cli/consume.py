"""`sparklog consume`: print records on stdout, as lines or as JSON."""

from __future__ import annotations

import sys
from contextlib import closing

import typer

from sparklog.cli.output import connect, ending
from sparklog.cli.record_lines import JsonLines, plain_lines
from sparklog.cli.settings import settings
from sparklog.core.errors import InvalidOption
from sparklog.host.interrupts import interrupts_noted

EPILOG = ending(
    "sparklog consume orders",
    "sparklog consume orders --offset -10 --partition 0 --format json",
    "sparklog consume orders --offset @2026-01-01T00:00:00Z:2026-02-01T00:00:00Z",
    "sparklog consume orders --offset end --follow --key-separator ': '",
    "sparklog consume orders --group billing --follow",
)


def consume(
    topic: str = typer.Argument(metavar="TOPIC", help="The topic."),
    offset: str = typer.Option(
        "start",
        "--offset",
        "-o",
        metavar="start|end|N|-N|@TIME[:TIME]",
        help="Where to start in each partition: an offset, N records before the end, or the first record at or after "
        "a time (ISO 8601 with a zone, or ms); @A:B stops before the first record at or after B.",
    ),
    partition: list[int] = typer.Option(
        [], "--partition", "-p", metavar="P", help="Only this partition; may be given several times. Default: all."
    ),
    num: int | None = typer.Option(None, "--num", "-n", min=1, metavar="N", help="Stop after N records."),
    follow: bool = typer.Option(False, "--follow", "-f", help="Keep printing new records until Ctrl-C."),
    group: str | None = typer.Option(
        None,
        "--group",
        "-g",
        metavar="GROUP",
        help="Join this consumer group: read its share of the partitions from where the group has committed, and "
        "commit what was printed. Where nothing is committed yet, --offset is committed first.",
    ),
    skip_lost: bool = typer.Option(
        False,
        "--skip-lost",
        help="Pass over records that are lost, with a warning that names them. Default: exit with DATA_LOSS there.",
    ),
    key_separator: str | None = typer.Option(
        None, "--key-separator", metavar="TEXT", help="Print KEY, this text, VALUE. Default: the value alone."
    ),
    base64: bool = typer.Option(
        False,
        "--base64",
        help="With --format json: key, value and header values as base64, for data that is not UTF-8.",
    ),
) -> None:
    """Print the records of a topic.

    Records are printed partition by partition in offset order: the bytes of each value and a line end, or with
    --format json an object per line. Plain lines show a null as the word null. JSON has topic, partition, offset,
    timestamp (ms), timestamp_us, key, value and headers. Without --follow, consume stops at the end that each partition
    has when it gets there. With --group, offsets are committed after their records were printed: after a crash, the
    last ones are printed again.
    """
    from sparklog.cli.consume_reading import Wanted, tables

    if settings.json and key_separator is not None:
        raise InvalidOption("--key-separator goes with lines, JSON has the key as a field")
    if base64 and not settings.json:
        raise InvalidOption("--base64 goes with --format json: lines are printed as they are")
    if group is not None and partition:
        raise InvalidOption("--partition does not go with --group: the members share the partitions")
    separator = None if key_separator is None else key_separator.encode()
    as_json = JsonLines(base64=base64)
    plain = ("value",) if separator is None else ("key", "value")
    wanted = Wanted(topic, offset, partition, num, follow, skip_lost, columns=None if settings.json else plain)
    with connect() as cluster, interrupts_noted() as check_interrupts, closing(tables(cluster, wanted, group)) as read:
        for table in read:
            for batch in table.to_batches():
                sys.stdout.buffer.write(as_json.of(batch) if settings.json else plain_lines(batch, separator))
            sys.stdout.flush()
            check_interrupts()
