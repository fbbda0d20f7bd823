"""`sparklog consume`: print records on stdout, as lines or as JSON."""

from __future__ import annotations

import os
import sys
from contextlib import closing

import typer

from sparklog.cli.common_options import settings
from sparklog.cli.completion import completed_groups, completed_topics
from sparklog.cli.output import connect, ending
from sparklog.cli.records.record_lines import JsonLines, Lines, PlainLines, TemplateLines
from sparklog.core.errors import InvalidOption
from sparklog.host.interrupts import interrupts_noted

EPILOG = ending(
    "sparklog consume orders",
    "sparklog consume orders --offset -10 --partition 0 --format json",
    "sparklog consume orders --offset @2026-01-01T00:00:00Z:2026-02-01T00:00:00Z",
    "sparklog consume orders --offset @-1h --template '%p %o %T %k %s\\n'",
    "sparklog consume orders --offset end --follow --key-separator ': '",
    "sparklog consume orders returns --group billing --follow",
    "sparklog consume --pattern 'orders-.*' --follow",
)


def consume(
    topics: list[str] | None = typer.Argument(
        None, metavar="TOPIC", help="The topics to print.", autocompletion=completed_topics
    ),
    pattern: str | None = typer.Option(
        None,
        "--pattern",
        metavar="REGEX",
        help="Instead of TOPIC: all topics whose whole names match; with --follow or --group, also later topics.",
    ),
    offset: str = typer.Option(
        "start",
        "--offset",
        "-o",
        metavar="start|end|N|-N|@TIME[:TIME]",
        help="The start in each partition: an offset, N records before the end, or the first record at or after a time "
        "(ISO 8601 with a zone, ms, or before now like -90s, -15m, -1h, -7d); @A:B stops before the first record at or "
        "after B.",
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
        autocompletion=completed_groups,
        help="Join this consumer group: read a share of the partitions from the committed offsets of the group, and "
        "commit printed records. In partitions without a committed offset, --offset is committed first.",
    ),
    skip_lost: bool = typer.Option(
        False,
        "--skip-lost",
        help="Skip lost records, with a warning that names them. Default: exit with DATA_LOSS there.",
    ),
    key_separator: str | None = typer.Option(
        None, "--key-separator", metavar="TEXT", help="Print KEY, this text, VALUE. Default: the value alone."
    ),
    template: str | None = typer.Option(
        None,
        "--template",
        metavar="TEXT",
        help="Print each record in this format, as kcat -f does: %t topic, %p partition, %o offset, %k key, %s value, "
        "%K and %S their lengths in bytes (-1: null), %T timestamp (ms), %h headers, %% a percent sign; \\n, \\t, "
        "\\0, \\xHH, \\\\. A null prints nothing.",
    ),
    base64: bool = typer.Option(
        False,
        "--base64",
        help="With --format json: key, value and header values as base64, for data that is not UTF-8.",
    ),
) -> None:
    """Print the records of topics.

    Records are printed partition by partition, in offset order: the bytes of each value and a line end, or one object
    per line with --format json, or the format of --template. Plain lines show a null as the word null. JSON has topic,
    partition, offset, timestamp (ms), timestamp_us, key, value and headers. Without --follow, consume reads each
    partition until it reaches its high watermark, which may rise meanwhile. With --group, offsets are committed after
    their records were printed: after a crash, the last records may be printed again.
    """
    from sparklog.cli.records.consume_reading import ConsumeSelection, tables

    names = topics or []
    if not names and pattern is None:
        raise InvalidOption("Missing argument TOPIC, or --pattern")
    if names and pattern is not None:
        raise InvalidOption("--pattern replaces TOPIC: give only one of them")
    if settings.json and key_separator is not None:
        raise InvalidOption("--key-separator applies to plain lines: JSON has the key as a field")
    if template is not None and (settings.json or key_separator is not None):
        raise InvalidOption(
            "--template can't be combined with --format json or --key-separator: it is the whole format"
        )
    if base64 and not settings.json:
        raise InvalidOption("--base64 needs --format json: plain lines are printed unchanged")
    if group is not None and partition:
        raise InvalidOption("--partition can't be combined with --group: the members share the partitions")
    lines: Lines
    if settings.json:
        lines = JsonLines(base64=base64)
    elif template is not None:
        lines = TemplateLines(template)
    else:
        lines = PlainLines(None if key_separator is None else os.fsencode(key_separator))
    wanted = ConsumeSelection(names, pattern, offset, partition, num, follow, skip_lost, lines.columns)
    with connect() as cluster, interrupts_noted() as check_interrupts, closing(tables(cluster, wanted, group)) as read:
        for table in read:
            for batch in table.to_batches():
                sys.stdout.buffer.write(lines.of(batch))
            sys.stdout.flush()
            check_interrupts()
