"""The guards of records over HTTP: who may append and read them, each once, and in bounded memory and time."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_RIGHTS = "tests/coordinator/access/test_record_rights.py::"
_PRODUCE = "tests/coordinator/http/test_produce_routes.py::"
_CONSUME = "tests/coordinator/http/test_consume_routes.py::"
_WORK = "tests/coordinator/leading/test_record_work.py::"
_APPENDS = "sparklog/coordinator/http/produce_routes.py"
_READS = "sparklog/coordinator/http/consume_routes.py"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "http-append-right",
        "Without the right to write to the topic, no body is read, and the reply tells nothing.",
        _APPENDS,
        "            check_topic_for(request, Verb.WRITE, topic, state)",
        "            pass",
        (f"{_RIGHTS}test_each_route_needs_its_right_on_the_topic",),
    ),
    Guard(
        "http-append-leader",
        "Only the leading coordinator reads the body of an append.",
        _APPENDS,
        "        service.control.check_leads(state)",
        "        pass",
        (f"{_PRODUCE}test_a_standby_names_the_leader_and_reads_no_body",),
    ),
    Guard(
        "http-append-once",
        "A repeat under a producer's sequence appends nothing.",
        _APPENDS,
        "        command = replace(command, slices=producer_slices(command.slices, _numbers(wanted.producer)))",
        "        pass",
        (f"{_PRODUCE}test_a_repeat_appends_nothing_and_gets_the_same_offsets",),
    ),
    Guard(
        "http-append-one-partition",
        "With a sequence, a repeat can't be routed to another partition.",
        _APPENDS,
        "        _check_one_partition(wanted.records)",
        "        pass",
        (f"{_PRODUCE}test_a_request_with_a_sequence_names_one_partition",),
    ),
    Guard(
        "http-append-body",
        "A body that is too large is refused before it is read.",
        _APPENDS,
        "        body = await body_of(request, bodies)",
        "        body = await body_of(request)",
        (f"{_PRODUCE}test_a_body_that_is_too_large_is_refused_before_it_is_parsed",),
    ),
    Guard(
        "http-append-bodies",
        "Bodies count until their records are uploaded.",
        _APPENDS,
        "        with bodies.holding(len(body)):",
        "        with bodies.holding(0):",
        (f"{_PRODUCE}test_bodies_count_until_they_are_uploaded",),
    ),
    Guard(
        "http-append-at-once",
        "Few requests are decoded and uploaded at once.",
        _APPENDS,
        "RecordWork(APPENDS, WAITING_APPENDS,",
        "RecordWork(1_000, WAITING_APPENDS,",
        (f"{_PRODUCE}test_few_appends_run_at_once_and_so_many_wait",),
    ),
    Guard(
        "http-append-records",
        "A request has a limited number of records.",
        "sparklog/wire/record_messages.py",
        "msgspec.Meta(min_length=1, max_length=MOST_APPENDED)",
        "msgspec.Meta(min_length=1)",
        (f"{_PRODUCE}test_bad_input_appends_nothing",),
    ),
    Guard(
        "http-append-base64",
        "Text that is no base64 is refused, not read in part.",
        _APPENDS,
        "strict_mode=True",
        "strict_mode=False",
        (f"{_PRODUCE}test_bad_input_appends_nothing",),
    ),
    Guard(
        "http-append-upload",
        "An upload that failed has certainly appended nothing, and names its store.",
        _APPENDS,
        "        raise _failed_upload(plan, error) from error",
        "        raise",
        (f"{_PRODUCE}test_a_store_that_can_not_be_opened_is_named",),
    ),
    Guard(
        "http-append-lag",
        "A store that hangs fails no append: there is time to leave it out.",
        _APPENDS,
        "await work.run(uploaded_body, lag_ms)",
        "await work.run(uploaded_body)",
        (f"{_PRODUCE}test_a_store_that_hangs_is_left_out_after_its_time",),
    ),
    Guard(
        "http-append-result",
        "The reply has the offsets of each partition in the order of the request.",
        _APPENDS,
        "        next_offsets[partition] += 1",
        "        pass",
        (f"{_PRODUCE}test_records_arrive_as_they_were_sent_and_each_has_its_offset",),
    ),
    Guard(
        "http-read-right",
        "Records are read with the right to read the topic only.",
        _READS,
        "        check_topic_for(request, Verb.READ, name, state)",
        "        pass",
        (f"{_RIGHTS}test_each_route_needs_its_right_on_the_topic",),
    ),
    Guard(
        "http-refusal-audited",
        "A refused request for records is in the audit.",
        "sparklog/coordinator/http/topic_routes.py",
        '        audit_refused(caller.principal.name, caller.address, f"{request.method} {request.url.path}", error)',
        "        pass",
        (f"{_RIGHTS}test_each_route_needs_its_right_on_the_topic",),
    ),
    Guard(
        "http-read-mask",
        "What is masked is in no reply.",
        _READS,
        "mask_of(masks, name)",
        "UNMASKED",
        (
            f"{_CONSUME}test_masked_parts_are_in_no_reply",
            f"{_CONSUME}test_the_size_of_what_is_masked_can_not_be_found_out",
        ),
    ),
    Guard(
        "http-read-body",
        "A body is not taken for a client that leaves.",
        _READS,
        "        await body_of(request, _no_body)  # then only a client that leaves ends a wait early",
        "        pass",
        (
            f"{_CONSUME}test_a_request_to_read_has_no_body",
            f"{_CONSUME}test_a_client_at_the_end_waits_for_the_next_record",
        ),
    ),
    Guard(
        "http-read-topic",
        "A wait does not end with the records of another topic of the same name.",
        _READS,
        "existing_topic(state, topic.topic_id)",
        "topic_of(state, name)",
        (f"{_CONSUME}test_a_topic_that_is_deleted_meanwhile_is_not_the_next_of_its_name",),
    ),
    Guard(
        "http-read-range",
        "An offset outside of the readable range is an error.",
        _READS,
        "    check_range(source.topic.name, partition, start, max(start, partition.high_watermark))",
        "    pass",
        (
            f"{_CONSUME}test_bad_input_is_a_refusal",
            f"{_CONSUME}test_what_retention_deleted_is_out_of_range_and_the_default_begins_after_it",
        ),
    ),
    Guard(
        "http-read-error",
        "A reply without records is no disguised error.",
        _READS,
        "        if not reading.records:",
        "        if False:",
        (
            f"{_CONSUME}test_records_before_lost_ones_are_read_and_then_the_loss_is_an_error",
            f"{_CONSUME}test_damage_is_served_to_nobody",
        ),
    ),
    Guard(
        "http-read-loss",
        "Records before a loss are read.",
        _READS,
        "min([piece.end, *later])",
        "piece.end",
        (f"{_CONSUME}test_records_before_lost_ones_are_read_and_then_the_loss_is_an_error",),
    ),
    Guard(
        "http-read-bytes",
        "A reply has as many bytes as wanted at most.",
        _READS,
        "            if self.records and self._size_bytes + size > self._limits.size_bytes:",
        "            if False:",
        (f"{_CONSUME}test_a_reply_has_so_many_bytes_and_at_least_one_record",),
    ),
    Guard(
        "http-read-record",
        "No record makes a reply larger than the limit.",
        _READS,
        "            if size > MOST_READ_BYTES:",
        "            if False:",
        (f"{_CONSUME}test_a_record_that_no_reply_can_have_is_named_once_it_is_the_first",),
    ),
    Guard(
        "http-read-time",
        "A read ends after some time.",
        _READS,
        " or self._source.monotonic_ms() >= self._limits.until_ms",
        "",
        (f"{_CONSUME}test_a_long_gap_ends_a_reply_after_some_time_and_next_is_behind_it",),
    ),
    Guard(
        "http-read-at-once",
        "Few reads run at once.",
        _READS,
        "RecordWork(READS, WAITING_READS,",
        "RecordWork(1_000, WAITING_READS,",
        (f"{_CONSUME}test_few_reads_run_at_once",),
    ),
    Guard(
        "http-record-turn",
        "No caller waits for its turn for ever.",
        "sparklog/coordinator/leading/record_work.py",
        "self._turns.acquire(), PATIENCE_MS / 1000",
        "self._turns.acquire(), None",
        (f"{_WORK}test_a_caller_does_not_wait_for_its_turn_for_ever",),
    ),
)
