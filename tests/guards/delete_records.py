"""The guards of deleting records by offset: nothing above HW, nothing that compaction keeps, all checked before."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_DECIDE: Final = "tests/core/decide/test_maintenance.py::"
_CLIENT: Final = "tests/client/test_delete_records.py::"

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "delete-records-policy",
        "A topic that is only compacted keeps its records, whoever asks.",
        "sparklog/core/decide/maintenance.py",
        "    if not config.delete:\n        raise PolicyViolation(",
        "    if False:\n        raise PolicyViolation(",
        (f"{_DECIDE}test_records_of_a_topic_that_is_only_compacted_are_not_deleted_by_offset",),
    ),
    Guard(
        "delete-records-plan-first",
        "One bad offset changes nothing in any partition.",
        "sparklog/core/maintenance/record_deletion.py",
        "    records = decide_move_log_start(state, command, at)\n",
        "    records = () if to > partition.high_watermark else decide_move_log_start(state, command, at)\n",
        (f"{_CLIENT}test_one_bad_offset_changes_nothing_anywhere",),
    ),
    Guard(
        "delete-records-resolved-once",
        "What comes after the plan stays: -1 is the high watermark that the plan saw.",
        "sparklog/client/delete_records.py",
        "    commands = [deletion.command for deletion in planned]\n",
        "    newest = connection.newest_state()\n"
        "    commands = [\n"
        "        type(deletion.command)(deletion.command.topic_id, deletion.command.partition, newest.partitions_of(\n"
        "            newest.topics[deletion.command.topic_id])[deletion.command.partition].high_watermark)\n"
        "        for deletion in planned\n"
        "    ]\n",
        (f"{_CLIENT}test_records_that_come_between_plan_and_deletion_stay",),
    ),
    Guard(
        "delete-records-asks",
        "Records are deleted only by somebody who said yes.",
        "sparklog/cli/topics/topic_delete_records.py",
        "            if not yes and any(deletion.records for deletion in planned):",
        "            if False:",
        (
            "tests/cli/topics/test_topic_delete_records.py::test_without_yes_it_asks_on_a_terminal_and_refuses_elsewhere",
        ),
    ),
)
