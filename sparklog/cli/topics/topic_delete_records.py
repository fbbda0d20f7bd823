"""`sparklog topic delete-records`: raises log starts to offsets (Kafka's kafka-delete-records, rpk's trim-prefix)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from sparklog.cli.common_options import DRY_RUN, settings
from sparklog.cli.completion import completed_topics
from sparklog.cli.output import connect, done, ending, table
from sparklog.core.describe.readable import amount, counted, point_in_time
from sparklog.core.errors import InvalidOption, SparklogError
from sparklog.options.key_value import key_values

if TYPE_CHECKING:
    from sparklog.core.maintenance.record_deletion import RecordDeletion
    from sparklog.core.types import Offset

EPILOG: Final = ending(
    "sparklog topic delete-records orders --partition 0=1200 --partition 1=end --dry-run",
    "sparklog topic delete-records orders --all-to end --yes",
    "sparklog topic delete-records orders --offset-json-file offsets.json",
)
_NUMBER: Final = re.compile(r"[0-9]{1,100}")
_FORM: Final = "an offset from 0, or end (also -1) for the high watermark"


def delete_records(
    topic: str = typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completed_topics),
    partition: list[str] = typer.Option(
        [],
        "--partition",
        "-p",
        metavar="N=OFFSET",
        help="Delete the records of this partition below the offset; may be given several times. If OFFSET is end (or "
        "-1), delete all records below the high watermark.",
    ),
    all_to: str | None = typer.Option(None, metavar="OFFSET", help="The same offset, or end, for all partitions."),
    offset_json_file: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="Partitions and offsets in the form of Kafka's tool: "
        '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1200}], "version": 1}.',
    ),
    yes: bool = typer.Option(False, "--yes", "-y", help="Don't ask for confirmation."),
    dry_run: bool = DRY_RUN,
) -> None:
    """Delete the records of partitions below an offset.

    The records are gone at once. Their objects are deleted by the first maintenance job, except verify, that runs after
    file.delete.delay.ms. A log start that is already higher stays. If any offset is above the high watermark of its
    partition, nothing is changed.
    """
    from sparklog.client import delete_records as client

    if (bool(partition) + (all_to is not None) + (offset_json_file is not None)) != 1:
        raise InvalidOption("wanted exactly one of --partition N=OFFSET, --all-to OFFSET and --offset-json-file FILE")
    offsets = _from_options(partition) if offset_json_file is None else _from_file(offset_json_file, topic)
    to = None if all_to is None else _offset(all_to, "--all-to")
    with connect() as cluster:
        if to is not None:
            offsets = dict.fromkeys(range(len(cluster.describe(topic).partitions)), to)
        planned = client.plan_deletions(cluster.connection, topic, offsets)
        outcomes: Sequence[Offset | SparklogError] = [deletion.after for deletion in planned]
        if not dry_run:
            if not yes and any(deletion.records for deletion in planned):
                _confirm(planned)
            outcomes = client.delete_records(cluster.connection, planned)
    rows = [_row(deletion, outcome) for deletion, outcome in zip(planned, outcomes, strict=True)]
    if not settings.json:
        print(_table(rows))
    done(_summary(planned, rows, dry_run=dry_run), {"topic": topic, "partitions": rows, "dry_run": dry_run})
    failed = [outcome for outcome in outcomes if isinstance(outcome, SparklogError)]
    if failed:
        raise typer.Exit(failed[0].exit_code)


# ---- the offsets to delete up to ----------------------------------------------------------------------


def _offset(text: str, where: str) -> int:
    """Parse an offset. Return -1 for "end" and "-1", which mean the high watermark.

    Raises InvalidOption, whose message begins with `where`.
    """
    if text == "end":
        return -1
    if text != "-1" and not _NUMBER.fullmatch(text):  # int() also accepts 1_0 and the digits of other scripts
        raise InvalidOption(f"{where}: wanted {_FORM}, found {text!r}")
    return int(text)


def _from_options(given: Sequence[str]) -> dict[int, int]:
    offsets: dict[int, int] = {}
    for number, offset in key_values(given, "--partition").items():
        if not _NUMBER.fullmatch(number):
            raise InvalidOption(f"--partition: wanted N=OFFSET, found {number}={offset}")
        if int(number) in offsets:
            raise InvalidOption(f"--partition: {int(number)} is given twice")
        offsets[int(number)] = _offset(offset, f"--partition {number}")
    return offsets


def _from_file(file: Path, topic: str) -> dict[int, int]:
    """Return the offsets by partition from a file in the format of kafka-delete-records.

    Raises InvalidOption, also if the file names another topic.
    """
    where = f"--offset-json-file {file}"
    wanted = '{"partitions": [{"topic": …, "partition": …, "offset": …}]}'
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        rows = [(row["topic"], row["partition"], row["offset"]) for row in document["partitions"]]
    except OSError as error:
        raise InvalidOption(f"{where}: it can't be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidOption(f"{where}: wanted {wanted}, found something else ({error})") from error
    offsets: dict[int, int] = {}
    for named, number, offset in rows:
        if named != topic:
            raise InvalidOption(f"{where}: wanted only topic {topic}, found {named!r}")
        if type(number) is not int or type(offset) is not int or number < 0:
            raise InvalidOption(f"{where}: wanted numbers, found partition {number!r} with offset {offset!r}")
        if number in offsets:
            raise InvalidOption(f"{where}: partition {number} is given twice")
        offsets[number] = _offset(str(offset), where)
    return offsets


def _confirm(planned: Sequence[RecordDeletion]) -> None:
    """Ask on the terminal to confirm the deletion. Raises InvalidOption if stdin is not a terminal."""
    records = counted(sum(deletion.records for deletion in planned), "record")
    if not _at_terminal():
        raise InvalidOption(f"{records} would be deleted: that needs --yes (--dry-run shows the plan)")
    print(_table([_row(deletion, deletion.after) for deletion in planned]), file=sys.stderr)
    typer.confirm(f"{records} will be deleted forever. Continue?", abort=True, err=True)


def _at_terminal() -> bool:
    return sys.stdin.isatty()


# ---- output -------------------------------------------------------------------------------------------


def _row(deletion: RecordDeletion, outcome: Offset | SparklogError) -> dict[str, Any]:
    """Return the output row of a partition.

    `outcome` is the new log start (with --dry-run, the planned one), or the error of the deletion. After an error, the
    row has the old log start, and says that nothing was deleted.
    """
    error = outcome if isinstance(outcome, SparklogError) else None
    return {
        "partition": deletion.command.partition,
        "before": deletion.before,
        "log_start": deletion.before if isinstance(outcome, SparklogError) else outcome,
        "records": 0 if error else deletion.records,
        "objects": 0 if error else deletion.objects,
        "size_bytes": 0 if error else deletion.size_bytes,
        "delete_after_ms": None if error else deletion.delete_after_ms,
        "error": error and str(error),
    }


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table, with a column for errors only if there are any."""
    failed = any(row["error"] for row in rows)
    return table([{name: value for name, value in row.items() if failed or name != "error"} for row in rows])


def _summary(planned: Sequence[RecordDeletion], rows: Sequence[Mapping[str, Any]], *, dry_run: bool) -> str:
    records = counted(sum(row["records"] for row in rows), "record")
    failed = sum(row["error"] is not None for row in rows)
    text = f"{'would delete' if dry_run else 'deleted'} {records}"
    if failed:
        text += f", {counted(failed, 'partition')} failed: run it again"
    delays_ms = [row["delete_after_ms"] for row in rows if row["delete_after_ms"] is not None]
    if not delays_ms:
        return text
    objects = counted(sum(row["objects"] for row in rows), "object")
    size = amount(sum(row["size_bytes"] for row in rows))
    return f"{text}; {objects} ({size}) are deleted by the first job that runs after {point_in_time(max(delays_ms))}"
