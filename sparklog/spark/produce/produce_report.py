"""The report of a produce run, and its JSON."""

from __future__ import annotations

import msgspec


class RangeWritten(msgspec.Struct, frozen=True):
    """The records written to one partition: offsets [start, end); `bytes` as stored."""

    partition: int
    start: int
    end: int
    records: int
    size_bytes: int = msgspec.field(name="bytes")


class ProduceReport(msgspec.Struct, frozen=True):
    """A run of produce.

    `records` and `bytes` count the written records. With --dry-run they count the records that would be written, and
    `bytes` counts keys and values. `skipped`: nothing was written, because the application had already written this
    version or a later one; with --changes, because the topic had all versions. `entry`: the chain entry of the commit,
    None if nothing was written. `bad_rows`: the number of unreadable rows; they were left out or went to
    `dead_letter_topic`, and are not in `records`. `hidden_files`: the number of files that were not read because the
    names of their folders begin with _ or a dot. `delta_versions`: with --changes, the table's versions [start, end)
    that were written; `entry` and `partitions` are then those of the last version.
    """

    source: str
    cluster: str
    topic: str
    dry_run: bool
    skipped: bool
    started_ms: int
    ended_ms: int
    records: int
    size_bytes: int = msgspec.field(name="bytes")
    created_topic: bool = False
    columns: tuple[str, ...] = ()
    write_id: str | None = None
    entry: int | None = None
    partitions: tuple[RangeWritten, ...] = ()
    bad_rows: int = 0
    dead_letter_topic: str | None = None
    hidden_files: int = 0
    delta_versions: tuple[int, int] | None = None
    job: str = "produce"
    exit_code: int = 0

    def to_json(self) -> str:
        """The JSON for --report."""
        return msgspec.json.format(msgspec.json.encode(self)).decode()
