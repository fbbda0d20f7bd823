"""Guards of where the copies of an object are: who is asked for it, and from where it is deleted."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "holding-all-replicas",
        "A slice is held by every replica only up to the smallest log end.",
        "sparklog/core/placement/held_slices.py",
        "min(self._replicas.log_ends)",
        "max(self._replicas.log_ends)",
        ("tests/core/placement/test_held_slices.py::test_a_slice_is_read_where_it_was_put",),
    ),
    Guard(
        "holding-unreachable",
        "Readers try stores that can't be reached last.",
        "sparklog/core/placement/held_slices.py",
        "if not store.reachable]",
        "if False]",
        ("tests/core/placement/test_held_slices.py::test_fenced_and_silent_stores_are_tried_last",),
    ),
    Guard(
        "retired-stores",
        "An object is deleted where a replica may have copied it.",
        "sparklog/core/forgetting.py",
        "delete_after_ms, topic.name, topic.stores)",
        "delete_after_ms, topic.name)",
        ("tests/core/placement/test_held_slices.py::test_what_is_retired_remembers_every_store_that_may_have_a_copy",),
    ),
    Guard(
        "topic-stores-moved",
        "A store that a replica moved to may have copies.",
        "sparklog/core/apply.py",
        "        if change.replicas is not UNSET:",
        "        if False:",
        ("tests/core/placement/test_held_slices.py::test_what_is_retired_remembers_every_store_that_may_have_a_copy",),
    ),
    Guard(
        "delete-everywhere",
        "An object is deleted for good only when every store that takes part has deleted it.",
        "sparklog/log/objects/object_deletion.py",
        "retired.number not in errors",
        "len(errors.get(retired.number, ())) < len(retired.stores)",
        (
            "tests/log/objects/test_object_deletion.py::"
            "test_a_store_that_does_not_answer_keeps_the_object_named_and_stops_no_other_store",
        ),
    ),
    Guard(
        "delete-copies",
        "A retired object is deleted from stores that got a copy later.",
        "sparklog/maintenance/job_frame.py",
        "[*(holder.store for holder in named.holders), *retired.stores]",
        "[holder.store for holder in named.holders]",
        ("tests/client/test_replicas.py::test_a_copy_that_a_store_reports_is_read_and_deleted_with_the_others",),
    ),
)
