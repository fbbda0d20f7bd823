"""Guards of the mirror of Kafka, and of the groups and checkpoints that come along."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_PLAN: Final = "sparklog/spark/mirror/mirror_plan.py"
_PLAN_TESTS: Final = "tests/spark/mirror/test_mirror_plan.py"
_JOB: Final = "sparklog/spark/mirror/mirror_job.py"
_JOB_TESTS: Final = "tests/spark/mirror/test_mirror_job.py"
_RANGE: Final = "sparklog/log/write/range_writer.py"
_RANGE_TESTS: Final = "tests/log/write/test_range_writer.py"
_CHECKPOINT: Final = "sparklog/core/reading/kafka_checkpoint.py"
_CHECKPOINT_TESTS: Final = "tests/core/reading/test_kafka_checkpoint.py"
_GROUPS: Final = "sparklog/client/groups/kafka_groups.py"
_GROUP_TESTS: Final = "tests/client/groups/test_kafka_groups.py"
_COPY: Final = "jvm/src/io/sparklog/mirror/RangeCopy.java"

GUARDS: Final = (
    Guard(
        "moving-truncated",
        "A Kafka that has fewer offsets than were copied is refused: it gives them to other records.",
        _PLAN,
        "    if end < next_offset:",
        "    if end < 0:",
        (f"{_PLAN_TESTS}::test_a_kafka_that_has_less_than_was_copied_has_lost_records",),
    ),
    Guard(
        "moving-retention",
        "Records that Kafka removed before they were copied are a loss, not a silent gap.",
        _PLAN,
        "    if 0 < covered < start and fail_on_data_loss:",
        "    if False and fail_on_data_loss:",
        (f"{_PLAN_TESTS}::test_removed_records_are_a_loss_unless_they_were_read_or_it_is_accepted",),
    ),
    Guard(
        "moving-created-again",
        "A topic that was created again in Kafka is another one.",
        _PLAN,
        "    if topic.mirror_of != found.id:",
        "    if topic.mirror_of.topic != found.id.topic:",
        (f"{_PLAN_TESTS}::test_a_topic_here_is_the_mirror_of_one_topic_that_has_as_many_partitions_or_more",),
    ),
    Guard(
        "moving-range-follows",
        "A batch that does not follow the one before is refused.",
        _RANGE,
        "        if first < self._next_offset or (not stores_offsets and first != self._next_offset):",
        "        if first < self._next_offset:",
        (f"{_RANGE_TESTS}::test_batches_that_do_not_follow_are_refused",),
    ),
    Guard(
        "moving-range-kinds",
        "An object has batches of one kind: with offsets or without, of one kind of timestamps.",
        _RANGE,
        "        if full or self._kind != (stores_offsets, source):",
        "        if full or self._kind is None:",
        (f"{_RANGE_TESTS}::test_a_change_of_the_kind_of_batches_begins_an_object",),
    ),
    Guard(
        "moving-range-end",
        "The last object covers the empty offsets up to the end only if it stores offsets.",
        _RANGE,
        "        if slices and self._kind is not None and self._kind[0]:",
        "        if slices and self._kind is not None:",
        (f"{_RANGE_TESTS}::test_the_end_of_a_range_is_covered_if_its_last_object_stores_offsets",),
    ),
    Guard(
        "moving-checkpoint-beyond",
        "A checkpoint beyond the mirror is refused: the records between were read on Kafka, and are not here yet.",
        _CHECKPOINT,
        "    if not 0 <= offset <= partition.next_offset:",
        "    if offset < 0:",
        (f"{_CHECKPOINT_TESTS}::test_what_cannot_be_taken_is_refused",),
    ),
    Guard(
        "moving-checkpoint-foreign",
        "Offsets of Kafka say nothing about a topic that never mirrored one.",
        _CHECKPOINT,
        "        if topic.kafka_topic is None:",
        "        if topic.kafka_topic is topic:",
        (f"{_CHECKPOINT_TESTS}::test_what_cannot_be_taken_is_refused",),
    ),
    Guard(
        "moving-group-clipped",
        "An imported offset is never beyond the mirror: its records would be skipped.",
        _GROUPS,
        "    if after > partition.high_watermark:",
        "    if after > partition.next_offset + (1 << 60):",
        (f"{_GROUP_TESTS}::test_an_offset_beyond_the_mirror_is_its_end_until_it_has_caught_up",),
    ),
    Guard(
        "moving-group-back",
        "An imported offset does not go back unless that is wanted.",
        _GROUPS,
        "    if before is not None and after < before and not back:",
        "    if before is not None and after < 0 and not back:",
        (f"{_GROUP_TESTS}::test_an_offset_that_goes_back_is_left_unless_it_is_wanted",),
    ),
    Guard(
        "moving-group-foreign",
        "Offsets are taken only for topics that mirror this Kafka.",
        _GROUPS,
        "    if topic.kafka_topic.cluster_id != cluster_id:",
        "    if topic.kafka_topic.cluster_id == cluster_id + cluster_id:",
        (f"{_GROUP_TESTS}::test_only_topics_that_mirror_this_kafka_or_did_are_taken",),
    ),
    Guard(
        "moving-isolation",
        "Records of aborted transactions are not copied.",
        _COPY,
        '          "isolation.level", "read_committed");',
        '          "isolation.level", "read_uncommitted");',
        (f"{_JOB_TESTS}::test_every_record_is_here_at_its_offset_once",),
    ),
    Guard(
        "moving-trailing",
        "Offsets behind the last record are covered, too: a query on Kafka may stand there.",
        _COPY,
        "    storesOffsets |= end > lastOffset + 1;",
        "    storesOffsets |= end < 0;",
        (f"{_JOB_TESTS}::test_offsets_behind_the_last_record_are_covered",),
    ),
)
