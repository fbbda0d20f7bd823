"""Guards of compacted segments: what is written into them, and how they are read."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_WRITTEN = "tests/log/rewrite/test_segment_compaction.py::"

GUARDS: Final = (
    Guard(
        "compacted-every-record",
        "Segments that lack a record which is to be kept are not swapped in.",
        "sparklog/log/rewrite/segment_compaction.py",
        "    if kept is not None and written != len(kept):",
        "    if False:",
        (f"{_WRITTEN}test_an_offset_to_keep_that_no_record_has_is_refused",),
    ),
    Guard(
        "compacted-over-a-gap",
        "What an election gave up stays visible as a gap: no segment covers it.",
        "sparklog/log/rewrite/segment_compaction.py",
        "        if before.slice.end != after.slice.start:",
        "        if False:",
        (f"{_WRITTEN}test_a_gap_that_an_election_left_is_not_covered",),
    ),
    Guard(
        "swap-over-a-gap",
        "A swap covers no gap that an election left.",
        "sparklog/core/decide/maintenance.py",
        "    if (starts[1:] != ends[:-1]).any():",
        "    if False:",
        ("tests/core/decide/test_gaps.py::test_a_swap_over_a_gap_is_refused",),
    ),
    Guard(
        "compacted-ascending",
        "Records that would not ascend are not written.",
        "sparklog/log/write/segments_writer.py",
        "        if first < self._next_offset:",
        "        if False:",
        (f"{_WRITTEN}test_records_that_do_not_ascend_are_refused",),
    ),
    Guard(
        "compacted-origin",
        "Records of another leader epoch or kind of timestamp get a segment of their own.",
        "sparklog/log/write/segments_writer.py",
        "        self._encode_pending()\n        self._close()\n        self._origin",
        "        self._origin",
        (f"{_WRITTEN}test_a_segment_ends_where_the_leader_epoch_or_the_kind_of_timestamp_changes",),
    ),
    Guard(
        "compacted-to-its-end",
        "The last segment covers what was dropped behind its last record.",
        "sparklog/log/write/segments_writer.py",
        "        if end is not None:",
        "        if False:",
        (f"{_WRITTEN}test_segments_are_cut_at_segment_bytes_and_cover_what_they_replace",),
    ),
    Guard(
        "compacted-append-time",
        "Records get the append time that only the chain knows.",
        "sparklog/log/rewrite/segment_compaction.py",
        "stored = with_append_time(rows, part.slice, RAW)",
        "stored = rows",
        (f"{_WRITTEN}test_a_segment_ends_where_the_leader_epoch_or_the_kind_of_timestamp_changes",),
    ),
    Guard(
        "compacted-next-holder",
        "At the next holder a compaction continues behind the batches that it has, and writes none twice.",
        "sparklog/log/rewrite/segment_compaction.py",
        "_runs(index.offsets, kept[np.searchsorted(kept, start) :])",
        "_runs(index.offsets, kept)",
        (f"{_WRITTEN}test_the_next_holder_goes_on_behind_the_records_that_the_first_one_gave",),
    ),
    Guard(
        "compacted-by-chain",
        "The chain alone does not number the records of a compacted slice.",
        "sparklog/log/read/kafka_rows.py",
        "        return not self.stored_columns and is_dense(self.slice)",
        "        return not self.stored_columns",
        (f"{_WRITTEN}test_offsets_alone_are_decoded_alone",),
    ),
    Guard(
        "compacted-append-time-look-up",
        "A look-up by append time does not answer with an offset that has no record.",
        "sparklog/log/read/time_lookup.py",
        "    if appended_then and is_dense(slice):",
        "    if appended_then:",
        (f"{_WRITTEN}test_an_append_time_that_only_the_chain_knows_is_that_of_the_first_record_left",),
    ),
    Guard(
        "compacted-index",
        "Offsets that do not lie in their slice, or do not ascend, are damage.",
        "sparklog/core/row_offsets.py",
        "        if not inside.all() or (base[1:] <= last[:-1]).any() or (last - base < records - 1).any():\n",
        "        if False:\n",
        (
            "tests/core/test_row_offsets.py::test_offsets_that_do_not_fit_a_slice_are_refused",
            f"{_WRITTEN}test_offsets_outside_their_slice_are_damage",
        ),
    ),
    Guard(
        "compacted-column",
        "A batch whose offsets are not those that its index says is damage.",
        "sparklog/core/row_offsets.py",
        "return RowOffsets.of_column(column) if fits else None",
        "return RowOffsets.of_column(column)",
        (
            "tests/core/test_row_offsets.py::test_a_column_that_does_not_ascend_is_refused",
            f"{_WRITTEN}test_offsets_other_than_the_index_says_are_damage",
        ),
    ),
    Guard(
        "scan-end-of-compacted-slice",
        "A read that is planned again behind the last record of a slice does not take its empty end for a loss.",
        "sparklog/log/read/scan.py",
        "                    at = max(at, min(part.slice.end, plan.end))\n",
        "",
        (f"{_WRITTEN}test_records_that_compaction_took_at_the_end_of_a_slice_are_no_loss",),
    ),
)
