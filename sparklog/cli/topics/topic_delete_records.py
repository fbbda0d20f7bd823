"""`sparklog topic delete-records`: raises log starts to offsets (Kafka's kafka-delete-records, rpk's trim-prefix)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from sparklog.cli.common_options import DRY_RUN, settings
from sparklog.cli.completion import completed_topics
from sparklog.cli.output import connect, done, ending
from sparklog.core.describe.readable import counted, text_table
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
    from sparklog.core.describe.planned_changes import deletion_of_records

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
                _confirm(topic, planned)
            outcomes = client.delete_records(cluster.connection, planned)
    change = deletion_of_records(topic, list(map(_deleted, planned, outcomes)))
    failed = [outcome for outcome in outcomes if isinstance(outcome, SparklogError)]
    rows = [
        {**row, "error": str(outcome) if isinstance(outcome, SparklogError) else None}
        for row, outcome in zip(change.rows, outcomes, strict=True)
    ]
    if not settings.json:
        print(text_table(rows if failed else change.rows))
    sentence = change.would if dry_run else change.done
    if failed:
        sentence += f"; {counted(len(failed), 'partition')} failed: run it again"
    done(sentence, {"topic": topic, "partitions": rows, "dry_run": dry_run})
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


def _confirm(topic: str, planned: Sequence[RecordDeletion]) -> None:
    """Ask on the terminal to confirm the deletion. Raises InvalidOption if stdin is not a terminal."""
    from sparklog.core.describe.planned_changes import deletion_of_records

    records = counted(sum(deletion.records for deletion in planned), "record")
    if not _at_terminal():
        raise InvalidOption(f"{records} would be deleted: that needs --yes (--dry-run shows the plan)")
    print(text_table(deletion_of_records(topic, planned).rows), file=sys.stderr)
    typer.confirm(f"{records} will be deleted forever. Continue?", abort=True, err=True)


def _at_terminal() -> bool:
    return sys.stdin.isatty()


# ---- output -------------------------------------------------------------------------------------------


def _deleted(planned: RecordDeletion, outcome: Offset | SparklogError) -> RecordDeletion:
    """The deletion as it was carried out: up to the new log start `outcome`, or nothing if `outcome` is an error."""
    from msgspec.structs import replace

    if isinstance(outcome, SparklogError):
        return replace(planned, after=planned.before, records=0, objects=0, size_bytes=0, delete_after_ms=None)
    return replace(planned, after=outcome)
