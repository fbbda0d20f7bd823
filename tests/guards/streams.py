"""Guards of streams: each record once in and out, and nothing missing unseen."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_PLAN: Final = "sparklog/client/stream_plan.py"
_READER: Final = "sparklog/spark/stream_reader.py"
_WRITER: Final = "sparklog/spark/stream_writer.py"
_READS: Final = "tests/spark/stream/test_stream_reader.py"
_WRITES: Final = "tests/spark/stream/test_stream_writer.py"
_CONSUMED: Final = "tests/core/decide/test_consumed.py::"

GUARDS: Final = (
    # ---- reading -------------------------------------------------------------------------------------
    Guard(
        "stream-share-of-one",
        "A partition with little that is new gets at least one offset of a limit, however small its share.",
        "sparklog/core/reading/trigger_limits.py",
        "max(1, limit * backlog // total)",
        "limit * backlog // total",
        ("tests/core/reading/test_trigger_limits.py::test_a_limit_is_shared_in_proportion_to_backlog",),
    ),
    Guard(
        "stream-two-writes",
        "Two writes in one foreachBatch are two applications: else the second would add nothing.",
        "sparklog/spark/foreach_batch.py",
        '" ".join([_query_of(batch), self.group, *self._topic()])',
        "_query_of(batch)",
        (
            "tests/spark/stream/test_foreach_batch.py::test_two_writes_of_one_query_are_not_taken_for_repeats_of_each_other",
        ),
    ),
    Guard(
        "stream-first-never-waits",
        "The first micro-batch of a run does not wait for the least number of offsets.",
        "sparklog/core/reading/trigger_limits.py",
        "if self.min_offsets is None or last_ms is None or now_ms",
        "last_ms = last_ms or 0\n        if self.min_offsets is None or now_ms",
        (
            "tests/core/reading/test_trigger_limits.py::test_a_micro_batch_waits_for_its_least_offsets_but_not_longer_than_the_delay",
        ),
    ),
    Guard(
        "stream-frozen-target",
        "A run of AvailableNow reads nothing that came after it began.",
        _READER,
        "            if self._target is not None:\n                newest = not_beyond(newest, self._target)\n",
        "",
        (f"{_READS}::test_available_now_reads_up_to_what_was_there_at_its_start_within_the_limits",),
    ),
    Guard(
        "stream-available-now-never-waits",
        "A run of AvailableNow does not wait for records that it would not read.",
        _READER,
        "limits if self._target is None else limits.without_minimum()",
        "limits",
        (f"{_READS}::test_available_now_reads_up_to_what_was_there_at_its_start_within_the_limits",),
    ),
    Guard(
        "stream-topic-id",
        "A position counts only for the topic that it was taken in, not for a later one of that name.",
        _PLAN,
        "known.offset if known is not None and known.topic_id == end.topic_id else",
        "known.offset if known is not None else",
        (f"{_READS}::test_a_topic_deleted_and_created_again_is_noticed",),
    ),
    Guard(
        "stream-other-cluster",
        "A checkpoint of another cluster is refused.",
        _PLAN,
        "    if positions.chain_id == state.chain_id:\n        return\n",
        "    if positions.chain_id:\n        return\n",
        (f"{_READS}::test_a_checkpoint_of_another_topic_cluster_or_version_is_refused",),
    ),
    Guard(
        "stream-missed-records",
        "A stream fails if records that it has not read are gone, or a topic that it has read is another one.",
        _READER,
        "            self._report(losses_at(state, begin, newest, self.options.read))\n",
        "",
        (
            f"{_READS}::test_a_topic_deleted_and_created_again_is_noticed",
            f"{_READS}::test_records_that_retention_took_before_they_were_read_fail_or_are_left_out",
        ),
    ),
    Guard(
        "stream-planned-records-gone",
        "A micro-batch that Spark planned before records went fails, too.",
        _READER,
        "        self._report(losses)\n        return input_partitions",
        "        return input_partitions",
        (f"{_READS}::test_a_micro_batch_planned_before_its_topic_went_is_read_as_far_as_it_is_there",),
    ),
    Guard(
        "stream-same-position",
        "A position changes only where records were read, so that an election makes no empty micro-batch.",
        _PLAN,
        "if known is not None and is_same and ends[place] <= known.offset:",
        "if known is not None and is_same and ends[place] < known.offset:",
        (f"{_READS}::test_a_position_changes_only_where_records_were_read",),
    ),
    Guard(
        "stream-secrets-of-source",
        "The source of a stream is sent to tasks without options.",
        "sparklog/spark/source.py",
        "        self.options.clear()  # as in `reader`",
        "        pass",
        (f"{_READS}::test_a_reader_and_its_source_are_sent_to_tasks_without_secrets",),
    ),
    Guard(
        "stream-reader-secrets",
        "A reader is sent to tasks without secrets.",
        _READER,
        "return StreamReader, (self.options.for_tasks(), schema)",
        "return StreamReader, (self.options, schema)",
        (f"{_READS}::test_a_reader_and_its_source_are_sent_to_tasks_without_secrets",),
    ),
    # ---- writing -------------------------------------------------------------------------------------
    Guard(
        "stream-identity",
        "A micro-batch is committed as a version of its query, so that a replay adds nothing.",
        _WRITER,
        "options = msgspec.structs.replace(self.options, transaction=transaction)",
        "options = self.options",
        (f"{_WRITES}::test_a_micro_batch_is_written_once_whoever_replays_it_and_its_tasks_upload_nothing",),
    ),
    Guard(
        "stream-replay-uploads-nothing",
        "The tasks of a micro-batch that is written already upload nothing.",
        _WRITER,
        "skipped = micro_batch.batch_id <= self.written.get(micro_batch.query_id, -1)",
        "skipped = False",
        (f"{_WRITES}::test_a_micro_batch_is_written_once_whoever_replays_it_and_its_tasks_upload_nothing",),
    ),
    Guard(
        "stream-still-written",
        "What tasks took for written is looked up again before the commit: an election may have given it up.",
        _WRITER,
        "        if any(message.skipped for message in sent):\n            self._check_still_written(transaction)\n",
        "",
        (f"{_WRITES}::test_a_micro_batch_that_was_lost_after_its_tasks_found_it_written_is_not_taken_for_written",),
    ),
    Guard(
        "stream-older-run",
        "A run of a query writes nothing once a newer run has written.",
        "sparklog/core/applications.py",
        "if known is not None and application.run in known.runs[1:]:",
        "if False:",
        (f"{_WRITES}::test_of_two_runs_the_older_one_is_fenced_with_what_it_has_under_way_and_for_ever",),
    ),
    Guard(
        "stream-set-back",
        "A micro-batch below the last one is no repeat: its records may be others.",
        "sparklog/core/applications.py",
        "application.run and known.lost is None and application.version < known.version:",
        "False:",
        (f"{_WRITES}::test_a_checkpoint_that_was_set_back_is_noticed",),
    ),
    Guard(
        "stream-async-progress",
        "A query whose repeated micro-batches may have other records is refused.",
        "sparklog/options/streams.py",
        '    if tracked.strip().lower() != "false":',
        "    if False:",
        ("tests/options/test_streams.py::test_spark_may_not_track_its_progress_on_the_side",),
    ),
    Guard(
        "stream-writer-secrets",
        "A writer is sent to tasks without secrets.",
        _WRITER,
        "return StreamWriter, (self.options.for_tasks(), self.plan, self.written)",
        "return StreamWriter, (self.options, self.plan, self.written)",
        (f"{_WRITES}::test_a_writer_is_sent_to_tasks_without_secrets",),
    ),
    Guard(
        "consumed-in-the-entry",
        "What a write was made from is committed in its own entry.",
        "sparklog/core/decide/command.py",
        "            return (*records, *leaders, *consumed)",
        "            return (*records, *leaders)",
        (_CONSUMED + "test_records_and_the_offsets_they_were_made_from_are_one_entry",),
    ),
    Guard(
        "consumed-result-kept",
        "An append with the offsets of a member is known by its id, and so is not made again.",
        "sparklog/core/apply.py",
        "    if not any(_is_known_otherwise(record) for record in appended or command.records):",
        "    if not any(_is_known_otherwise(record) for record in command.records):",
        (_CONSUMED + "test_an_append_of_a_member_is_known_by_its_id",),
    ),
    Guard(
        "consumed-overtaken",
        "Records are never written without the offsets that they came with.",
        "sparklog/core/decide/groups.py",
        "        if command.number <= known.commits:",
        "        if False:",
        (_CONSUMED + "test_members_that_were_replaced_write_nothing",),
    ),
    Guard(
        "consumed-acks",
        "An election can't undo records whose offsets stay committed.",
        "sparklog/core/decide/append.py",
        "command.application is not None or command.consumed is not None or len",
        "command.application is not None or len",
        (_CONSUMED + "test_what_an_election_might_undo_in_part_is_refused",),
    ),
    Guard(
        "consumed-access",
        "Whoever may only write commits no offsets of topics that it may not read.",
        "sparklog/core/access.py",
        "            also = None if command.consumed is None else need_of(command.consumed)",
        "            also = None",
        ("tests/core/test_access.py::test_an_append_with_offsets_of_a_group_needs_to_read_what_was_consumed",),
    ),
    Guard(
        "consumed-by-the-sink",
        "A sink with a group commits what its micro-batch was made from.",
        _WRITER,
        "        BatchWriter(options, plan, None).commit(messages, self._consumed(transaction))",
        "        BatchWriter(options, plan, None).commit(messages)",
        ("tests/spark/stream/test_histories.py::test_output_and_consumed_offsets_agree_at_every_step",),
    ),
    Guard(
        "consumed-of-this-query",
        "The offsets of another query's checkpoint are not taken for this one's.",
        "sparklog/spark/offset_log.py",
        "    if _query_in(written) != query_id:",
        "    if False:",
        ("tests/spark/stream/test_offset_log.py::test_the_checkpoint_of_another_query_or_of_none_is_refused",),
    ),
    Guard(
        "consumed-of-this-cluster",
        "Positions in another cluster are not committed in this one.",
        "sparklog/spark/offset_log.py",
        "        if positions.chain_id == chain_id\n",
        "",
        ("tests/spark/stream/test_offset_log.py::test_a_micro_batch_ends_where_the_sources_of_its_cluster_do",),
    ),
    Guard(
        "group-only-forward",
        "A group that follows a stream never goes back, whoever is late.",
        "sparklog/core/decide/groups.py",
        "    if command.only_forward:",
        "    if False:",
        (_CONSUMED + "test_a_commit_that_only_goes_forward_leaves_out_what_is_behind",),
    ),
    Guard(
        "consumed-gone",
        "A topic that was deleted while a micro-batch ran does not keep its records out for ever.",
        "sparklog/client/groups.py",
        "        if key in state.partitions and (known is None or position.offset < known.offset):",
        "        if known is None or position.offset < known.offset:",
        (
            "tests/client/test_consumed.py::test_a_group_that_follows_a_stream_never_goes_back_and_leaves_out_what_is_gone",
        ),
    ),
    Guard(
        "consumed-lowest",
        "Of two sources that read one partition, the one that is behind says what was consumed.",
        "sparklog/client/groups.py",
        "        if key in state.partitions and (known is None or position.offset < known.offset):",
        "        if key in state.partitions and known is None:",
        (
            "tests/client/test_consumed.py::test_a_group_that_follows_a_stream_never_goes_back_and_leaves_out_what_is_gone",
        ),
    ),
)
