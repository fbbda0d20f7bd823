"""Guards of content: right checksums make no one read beyond a buffer, and writers keep wrong headers out."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_DECODER: Final = "sparklog/log/message_decoder.py"
_METADATA: Final = "sparklog/log/message_metadata.py"
_DECODER_TESTS: Final = "tests/log/test_message_decoder.py::"
_INDEX_TESTS: Final = "tests/log/test_index.py::"
_BOMB: Final = (
    "tests/jvm/test_fuzz.py::"
    "test_python_and_java_read_the_largest_record_and_refuse_a_small_batch_that_would_take_more_memory"
)


def _guard(name: str, guards: str, text: str, without: str, test: str, file: str = _DECODER) -> Guard:
    return Guard(f"content-{name}", guards, file, text, without, (_DECODER_TESTS + test,))


GUARDS: Final = (
    _guard(
        "offsets",
        "Offsets ascend within their data, those between the first and the last one, too.",
        "array.validate(full=True)",
        "array.validate()",
        "test_offsets_beyond_the_data_show_no_memory_of_the_process",
    ),
    _guard(
        "rows",
        "Each column has as many rows as its batch.",
        "        if rows != self._numbers.rows:",
        "        if False:",
        "test_each_column_has_as_many_rows_as_the_batch",
    ),
    _guard(
        "negative-nulls",
        "A number of nulls that Arrow takes for 'unknown' is refused, as in Java.",
        "        if nulls < 0:",
        "        if False:",
        "test_a_column_has_as_many_nulls_as_its_bits_say",
    ),
    _guard(
        "null-numbers",
        "Timestamps and offsets are never null: their nulls would be read as numbers.",
        "        if nulls:\n            raise",
        "        if False:\n            raise",
        "test_numbers_and_headers_and_their_keys_are_never_null",
    ),
    _guard(
        "null-keys",
        "No reader meets a header without a key.",
        "        if nulls or null_keys:",
        "        if False:",
        "test_a_header_of_null_or_with_a_null_as_key_is_refused",
    ),
    _guard(
        "bounds",
        "A buffer lies within its message.",
        "        if start < 0 or length < 0 or start + length > self._body.size:",
        "        if False:",
        "test_a_buffer_lies_within_the_message",
    ),
    _guard(
        "room",
        "No room is made for more bytes than a compressed buffer can hold.",
        "    if not 0 <= raw <= most:",
        "    if False:",
        "test_no_room_is_made_for_what_a_compressed_buffer_can_not_hold",
    ),
    _guard(
        "claims",
        "Before a buffer is decompressed, the lengths that all buffers claim are added up …",
        "if numbers.codec and claimed > min(LARGEST_BATCH_BYTES, _MOST_RATIO[numbers.codec] * message.size):",
        "if False:",
        "test_buffers_that_claim_more_than_the_largest_batch_are_refused_before_one_is_unpacked",
    ),
    _guard(
        "shared-bytes",
        "… since buffers that share their bytes claim more than their message can hold …",
        "claimed > min(LARGEST_BATCH_BYTES, _MOST_RATIO[numbers.codec] * message.size)",
        "claimed > LARGEST_BATCH_BYTES",
        "test_buffers_that_share_their_bytes_claim_no_more_than_the_message_can_hold",
    ),
    _guard(
        "allowed",
        "… and a reader may have less memory than a legal batch takes.",
        "        if claimed > self._most_bytes:",
        "        if False:",
        "test_a_reader_may_allow_less_memory_than_a_batch_takes",
    ),
    Guard(
        "content-page-memory",
        "A page of records takes no more memory than its bound, however large a record is.",
        "sparklog/coordinator/page/records/record_reading.py",
        ", most_batch_bytes=most_bytes\n",
        "\n",
        ("tests/coordinator/test_record_page.py::test_a_record_that_is_too_large_for_a_page_is_not_decompressed",),
    ),
    Guard(
        "content-compressed-index",
        "A compressed index, which might claim any length, is refused.",
        "sparklog/log/index.py",
        "        if batch_numbers(rows).codec is not None:",
        "        if False:",
        (f"{_INDEX_TESTS}test_a_compressed_index_is_damage",),
    ),
    Guard(
        "content-claims-in-java",
        "Java refuses the same bombs.",
        "jvm/src/io/sparklog/arrow/Decoder.java",
        "      checkClaims(layout, wanted);\n",
        "",
        (_BOMB,),
    ),
    _guard(
        "lz4-length",
        "What an LZ4 frame does not fill is not shown: it would be memory of the process.",
        "    if plain.size != raw or stream.read(1):",
        "    if False:",
        "test_a_compressed_buffer_holds_as_many_bytes_as_it_claims",
    ),
    _guard(
        "lz4-frame",
        "A buffer is one LZ4 frame, as in Java.",
        "    if _lz4_frame_bytes(packed) != packed.size:",
        "    if False:",
        "test_a_buffer_is_one_lz4_frame_and_nothing_else",
    ),
    _guard(
        "columns",
        "A message of other columns is not read as if it had those of the log.",
        "        if (len(numbers.nodes), len(numbers.buffers)) != (2 * wanted.nodes, 2 * wanted.buffers):",
        "        if False:",
        "test_metadata_of_other_columns_or_another_kind_of_message_are_refused",
    ),
    _guard(
        "kind",
        "A message of another kind is not read as a batch.",
        "        if metadata.field(INT8, type_) != kind:",
        "        if False:",
        "test_metadata_of_other_columns_or_another_kind_of_message_are_refused",
        _METADATA,
    ),
    Guard(
        "content-empty-batch",
        "No batch of an index is empty: its records would have no offsets.",
        "sparklog/log/index.py",
        "    is_full = (index.records > 0).all() and (index.length > 0).all()\n",
        "    is_full = True\n",
        (f"{_INDEX_TESTS}test_an_index_whose_batches_do_not_follow_each_other_is_damage",),
    ),
    Guard(
        "content-contiguous",
        "The batches of an index follow each other, so a read of many has the bytes of each.",
        "sparklog/log/index.py",
        " or (index.position[1:] != ends[:-1]).any():",
        ":",
        (f"{_INDEX_TESTS}test_an_index_with_a_gap_between_two_batches_is_damage",),
    ),
    Guard(
        "content-index-offsets",
        "An offset of an index beyond its slice is refused before a difference of it overflows.",
        "sparklog/core/row_offsets.py",
        "        if not inside.all() or ",
        "        if ",
        ("tests/core/test_row_offsets.py::test_offsets_that_overflow_are_not_those_of_a_slice",),
    ),
    Guard(
        "header-keys",
        "A header key that is null or not UTF-8 is not written.",
        "sparklog/client/plans/task_upload.py",
        "    check_header_keys(rows, planned.name)\n",
        "",
        ("tests/log/test_header_keys.py::test_an_append_with_a_wrong_key_writes_nothing",),
    ),
    Guard(
        "readable-keys",
        "A header key that is not UTF-8 breaks no reader.",
        "sparklog/log/read/kafka_rows.py",
        '                return readable_headers(column) if name == "headers" else column',
        "                return column",
        ("tests/log/test_header_keys.py::test_a_key_that_is_not_utf_8_is_read_as_text",),
    ),
    Guard(
        "slices-keys",
        "Keys beside those of a slice are neither looked at nor copied with it.",
        "sparklog/log/header_keys.py",
        "headers.values.slice(int(ends[0]), int(ends[-1] - ends[0]))",
        "headers.values",
        ("tests/log/test_header_keys.py::test_bytes_beside_those_of_a_slice_are_not_looked_at",),
    ),
    Guard(
        "decoding-pool",
        "No batch that is here waits for a store that does not answer.",
        "sparklog/log/read/read_ahead.py",
        '"sparklog-decoding"',
        '"sparklog-read-ahead"',
        ("tests/log/read/test_read_ahead.py::test_no_batch_waits_for_stores_that_do_not_answer",),
    ),
    _guard(
        "stored-buffers",
        "The bound of a page holds for buffers without compression, too.",
        "length - prefix_bytes if raw == _STORED else max(0, raw)",
        "max(0, raw)",
        "test_buffers_that_are_stored_as_they_are_count_too",
    ),
    Guard(
        "page-piece",
        "The bounds of a page hold inside a piece.",
        "sparklog/coordinator/page/records/record_reading.py",
        "if next_offset < piece.end and (",
        "if False and (",
        (
            "tests/coordinator/test_record_page.py::"
            "test_a_piece_of_large_records_ends_at_the_bounds_of_a_page_and_the_links_go_on",
        ),
    ),
    Guard(
        "page-large-record",
        "A record that is too large for a page hides no later ones.",
        "sparklog/coordinator/page/records/record_reading.py",
        "if isinstance(error, RecordTooLarge) and down and piece.end - piece.start > 1:",
        "if False:",
        ("tests/coordinator/test_record_page.py::test_the_records_after_one_that_is_too_large_are_shown",),
    ),
    Guard(
        "rebuild-bound",
        "No object above the bound of a page is fetched to rebuild its index.",
        "sparklog/log/read/object_reader.py",
        "if object_.size_bytes > most_bytes:",
        "if False:",
        ("tests/log/read/test_object_reader.py::test_an_object_above_the_bound_is_not_fetched_to_rebuild_its_index",),
    ),
    Guard(
        "fetch-bound",
        "No batch above the bound of a page is fetched.",
        "sparklog/log/read/ranged_reads.py",
        "read.end - read.start <= most_bytes",
        "True",
        ("tests/log/read/test_object_reader.py::test_a_batch_above_the_bound_is_not_fetched",),
    ),
    Guard(
        "reads-after-the-main-thread",
        "Reads go on when no thread can start any more.",
        "sparklog/log/read/read_ahead.py",
        "except RuntimeError:",
        "except MemoryError:",
        ("tests/log/read/test_read_ahead.py::test_reads_go_on_after_the_main_thread_has_ended",),
    ),
    Guard(
        "reads-after-a-fork",
        "A forked process does not wait for threads that it lacks.",
        "sparklog/log/read/read_ahead.py",
        "return self._future if self._process == os.getpid() else None",
        "return self._future",
        ("tests/log/read/test_read_ahead.py::test_a_forked_process_does_itself_what_threads_of_its_parent_were_doing",),
    ),
    Guard(
        "table-content",
        "A table of the chain is checked before its numbers are used.",
        "sparklog/chain/arrow_table.py",
        "        batch.validate(full=True)\n",
        "",
        ("tests/chain/test_arrow_table.py::test_a_table_with_wrong_content_is_no_table",),
    ),
)
