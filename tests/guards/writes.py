"""Guards of what is written: rolls, and uploads to several stores."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

GUARDS: Final = (
    # ---- a roll, and a writer ---------------------------------------------------------------------------
    Guard(
        "roll-every-record",
        "A rewrite whose records differ from those of its slices is not swapped in.",
        "sparklog/log/rewrite/segment_roll.py",
        "    if end != wanted:",
        "    if False:",
        ("tests/log/rewrite/test_segment_roll.py::test_a_rewrite_of_fewer_records_than_its_slices_have_is_refused",),
    ),
    Guard(
        "roll-next-holder",
        "At the next holder a roll continues after the batches that it has, and copies none twice.",
        "sparklog/log/rewrite/segment_roll.py",
        "    begin, stop = index.offsets.batches_in(OffsetRange(start, part.slice.end))",
        "    begin, stop = 0, len(index.batches)",
        ("tests/log/rewrite/test_segment_roll.py::test_a_roll_goes_on_at_the_next_holder_where_the_first_one_fails",),
    ),
    Guard(
        "roll-checksum",
        "A batch that is copied unchanged is verified first.",
        "sparklog/log/rewrite/segment_roll.py",
        '            verify(batch.message, batch.crc32c, "record batch", key, position)\n',
        "",
        ("tests/log/rewrite/test_segment_roll.py::test_a_damaged_batch_that_is_large_enough_to_be_copied_is_refused",),
    ),
    Guard(
        "roll-index-of-slice",
        "A roll does not use an index that disagrees with the chain.",
        "sparklog/log/rewrite/segment_roll.py",
        "    index = index_of_slice(store, key, part.object, part.slice)",
        "    from sparklog.core.row_offsets import SliceOffsets\n"
        "    from sparklog.log.index import SliceIndex\n"
        "    from sparklog.log.read.object_reader import read_index\n\n"
        "    rows = read_index(store, key, part.object)\n"
        "    index = SliceIndex(rows, SliceOffsets.of(part.slice, rows.records))",
        ("tests/log/rewrite/test_segment_roll.py::test_a_slice_that_its_index_does_not_know_is_not_rewritten",),
    ),
    Guard(
        "roll-order",
        "Records that wait to be joined are written before the batch that follows them is copied.",
        "sparklog/log/write/segments_writer.py",
        "        self._encode_pending()\n        self._append(batch)",
        "        self._append(batch)",
        ("tests/log/rewrite/test_segment_roll.py::test_what_is_joined_and_what_is_copied_stays_in_order",),
    ),
    Guard(
        "roll-append-time",
        "Large batches, too, get the append time that only the chain knows.",
        "sparklog/log/rewrite/segment_roll.py",
        "may_copy = not overlaid and",
        "may_copy =",
        ("tests/log/rewrite/test_segment_roll.py::test_large_batches_get_the_append_time_too",),
    ),
    Guard(
        "roll-last-append-time",
        "A segment is as old as the youngest of its slices.",
        "sparklog/log/rewrite/segment_roll.py",
        "    append_time_ms = max(part.slice.append_time_ms for part in slices)",
        "    append_time_ms = slices[0].slice.append_time_ms",
        ("tests/log/rewrite/test_segment_roll.py::test_a_segment_was_appended_when_the_last_of_its_slices_was",),
    ),
    Guard(
        "roll-segment-bytes",
        "A stored batch that is larger than a segment is not copied.",
        "sparklog/log/rewrite/segment_roll.py",
        "<= stored.batch.message.size <= target.segment_bytes",
        "<= stored.batch.message.size",
        ("tests/log/rewrite/test_segment_roll.py::test_a_stored_batch_larger_than_a_segment_is_cut",),
    ),
    Guard(
        "arena-of-an-upload",
        "Memory that an upload still reads is not overwritten.",
        "sparklog/log/write/objects_writer.py",
        "        self._encoder.forget()\n        pa.default",
        "        pa.default",
        ("tests/log/write/test_objects_writer.py::test_batches_that_wait_for_their_upload_are_not_written_over",),
    ),
    Guard(
        "arena-of-a-stream",
        "Memory that a slow store has still to take is not overwritten, though another store has taken it.",
        "sparklog/log/write/objects_writer.py",
        "        if self._has_one_store:\n            self._encoder.rewind()",
        "        if True:\n            self._encoder.rewind()",
        ("tests/log/write/test_topic_writer.py::test_a_partition_on_several_stores_is_streamed_too",),
    ),
    Guard(
        "every-upload",
        "An object that is still being uploaded when the next one is closed is not forgotten.",
        "sparklog/log/write/task_memory.py",
        "        written.append((named, slices_of(len(written), named, index)))\n",
        "",
        ("tests/log/write/test_objects_writer.py::test_every_object_is_named_however_much_room_is_left",),
    ),
    # ---- a replicated upload ----------------------------------------------------------------------------
    Guard(
        "lane-deadline",
        "A store that never answers does not hold a write up for ever.",
        "sparklog/log/write/store_lanes.py",
        "                if left_ms <= 0:",
        "                if False:",
        (
            "tests/log/write/test_replicated_upload.py::"
            "test_the_time_that_a_store_may_hold_a_task_up_is_counted_over_all_its_objects",
        ),
    ),
    Guard(
        "lane-ahead",
        "Stores that are equally slow are not given up.",
        "sparklog/log/write/store_lanes.py",
        "                some_ahead = any(is_ahead(work) for work in works)",
        "                some_ahead = True",
        ("tests/log/write/test_replicated_upload.py::test_stores_that_are_equally_slow_hold_nobody_up",),
    ),
    Guard(
        "upload-incarnation",
        "A store that was wiped or swapped is not said to hold an object.",
        "sparklog/log/write/replicated_upload.py",
        "                check_incarnation(store, self.lane.incarnation, (self._key,))\n",
        "                pass\n",
        ("tests/log/write/test_replicated_upload.py::test_a_store_that_was_wiped_or_swapped_holds_nothing",),
    ),
    Guard(
        "upload-doubt",
        "A store that may or may not have an object is not its holder.",
        "sparklog/log/write/replicated_upload.py",
        "            self.done = doubt is None and not self.is_given_up\n",
        "            self.done = not self.is_given_up\n",
        ("tests/log/write/test_replicated_upload.py::test_a_store_that_may_have_the_object_is_no_holder",),
    ),
    Guard(
        "upload-given-up",
        "A store that was given up while it published is not a holder, whatever it says later.",
        "sparklog/log/write/replicated_upload.py",
        "            self.done = doubt is None and not self.is_given_up\n",
        "            self.done = doubt is None\n",
        ("tests/log/write/test_replicated_upload.py::test_a_store_that_answers_after_it_was_given_up_is_no_holder",),
    ),
    Guard(
        "upload-cut-off",
        "An object is not published without the parts that a given-up store had still to take.",
        "sparklog/log/write/replicated_upload.py",
        "                    if self.is_given_up:",
        "                    if False:",
        ("tests/log/write/test_replicated_upload.py::test_a_store_that_holds_the_others_up_for_too_long_is_given_up",),
    ),
    Guard(
        "upload-freed",
        "A store that was given up keeps nothing in memory that its thread does not use.",
        "sparklog/log/write/replicated_upload.py",
        "        self._parts.clear()\n        self.waiting_bytes = 0\n",
        "        pass\n",
        (
            "tests/log/write/test_replicated_upload.py::test_the_bytes_that_only_a_store_that_was_given_up_lacks_are_dropped",
        ),
    ),
    Guard(
        "upload-doubt-hurries",
        "A store that is in doubt does not hurry another one.",
        "sparklog/log/write/replicated_upload.py",
        "self._lanes.wait(self._copies, _is_settled, lambda copy: copy.done)",
        "self._lanes.wait(self._copies, _is_settled, _is_settled)",
        ("tests/log/write/test_replicated_upload.py::test_a_store_in_doubt_does_not_hurry_one_that_works",),
    ),
    Guard(
        "lane-stalled",
        "A write does not wait for ever if all its stores hang.",
        "sparklog/log/write/store_lanes.py",
        "                        if not some_ahead:",
        "                        if False:",
        ("tests/log/write/test_replicated_upload.py::test_stores_that_all_hang_do_not_hold_a_write_up_for_ever",),
    ),
    Guard(
        "lane-progress",
        "Stores that are equally slow but take something are not given up.",
        "sparklog/log/write/store_lanes.py",
        "if some_ahead or progress != self._progress:",
        "if some_ahead:",
        ("tests/log/write/test_replicated_upload.py::test_stores_that_are_equally_slow_hold_nobody_up",),
    ),
    Guard(
        "lane-one-thread",
        "A store that hangs keeps one thread of a task.",
        "sparklog/log/write/store_lanes.py",
        "            if not lane.has_thread and lane.works:",
        "            if lane.works:",
        (
            "tests/log/write/test_replicated_upload.py::test_a_store_that_hangs_keeps_one_thread_however_many_objects_wait",
        ),
    ),
    Guard(
        "lane-given-up-at-the-end",
        "No thread waits for work of a task that has ended.",
        "sparklog/log/write/store_lanes.py",
        '            self.give_up(lane, StoreUnavailable("the write was given up"))\n',
        "            pass\n",
        ("tests/log/write/test_replicated_upload.py::test_a_thread_that_cant_start_is_an_error_of_that_object_alone",),
    ),
    Guard(
        "lane-closed-here",
        "What the calling thread began to upload is dropped when the task ends.",
        "sparklog/log/write/store_lanes.py",
        "            self._close(work)\n\n    def of",
        "            pass\n\n    def of",
        (
            "tests/log/write/test_replicated_upload.py::test_an_object_streamed_here_is_dropped_though_its_store_failed_at_another_one",
        ),
    ),
    Guard(
        "swapped-between-objects",
        "A store that was swapped during a task holds none of its objects, not even those uploaded before.",
        "sparklog/client/plans/task_upload.py",
        "_without(uploaded, swapped, errors) if swapped else uploaded",
        "uploaded",
        ("tests/client/test_failing_stores.py::test_a_store_that_is_swapped_between_two_objects_holds_neither",),
    ),
    Guard(
        "slow-everywhere",
        "A write does not leave out all the stores that it could go to.",
        "sparklog/client/plans/task_upload.py",
        " if all(any(holder.store not in slow for holder in holders) for holders in store_sets) else frozenset()",
        "",
        ("tests/client/test_failing_stores.py::test_a_slow_store_is_written_to_if_there_is_no_other",),
    ),
)
