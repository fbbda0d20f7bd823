"""Guards of materialize: each record once in the table, and no record missing unseen."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_JOB: Final = "sparklog/spark/materialize/materialize_job.py"
_ONCE: Final = "tests/spark/materialize/test_exactly_once.py"
_SOURCE: Final = "tests/spark/materialize/test_same_source.py"
_STEPS: Final = "tests/spark/materialize/test_steps.py"

GUARDS: Final = (
    Guard(
        "materialize-step-once",
        "Delta takes a step once: a copy of the job that was overtaken adds nothing.",
        "sparklog/spark/materialize/delta_table.py",
        '            "txnAppId": position.app_id,\n            "txnVersion": str(position.step),\n',
        "",
        (f"{_ONCE}::test_a_copy_of_the_job_that_is_overtaken_with_more_records_adds_nothing_twice",),
    ),
    Guard(
        "materialize-overtaken",
        "A copy of the job that was overtaken plans again from where the table is now.",
        _JOB,
        "        if reached is not None and reached.step >= step.after.step:",
        "        if False:",
        (f"{_ONCE}::test_a_copy_of_the_job_that_is_overtaken_with_more_records_adds_nothing_twice",),
    ),
    Guard(
        "materialize-loss",
        "Records that went before the table got them stop the job.",
        "sparklog/spark/materialize/steps.py",
        "            if fail_on_data_loss:",
        "            if False:",
        (f"{_STEPS}::test_records_that_went_before_the_table_got_them_are_a_loss",),
    ),
    Guard(
        "materialize-first-position",
        "A table begins at the log starts of all partitions: what they had before is no loss.",
        "sparklog/spark/materialize/steps.py",
        "    return TablePosition(state.chain_id, topic.topic_id, topic.name, mode, 0, run, ends)\n",
        "    return TablePosition(state.chain_id, topic.topic_id, topic.name, mode, 0, run)\n",
        (f"{_STEPS}::test_what_a_partition_lost_before_the_table_began_is_no_loss_even_if_it_was_empty_then",),
    ),
    Guard(
        "materialize-replaced",
        "A table that somebody else replaced does not look as if it had what the job wrote before.",
        "sparklog/spark/materialize/delta_table.py",
        ' or "REPLACE TABLE" in commit.operation',
        "",
        (f"{_SOURCE}::test_what_others_took_back_is_not_taken_for_there",),
    ),
    Guard(
        "materialize-read-topic-id",
        "No record of a topic that was created again gets under the position of the earlier one.",
        _JOB,
        '        reader = reader.option("topicId", step.after.topic_id)\n',
        "",
        (f"{_SOURCE}::test_records_are_read_of_the_topic_that_the_step_is_of",),
    ),
    Guard(
        "read-topic-id",
        "A read that names the id of its topic gets no records of a topic of the same name.",
        "sparklog/client/plans/read_plan.py",
        "    _check_topic_id(read, options.topic_id)\n",
        "",
        ("tests/client/plans/test_read_plan.py::test_a_topic_that_was_created_again_is_not_the_one_that_was_named",),
    ),
    Guard(
        "materialize-topic-id",
        "A topic that was created again does not go on with the table of the earlier one.",
        "sparklog/spark/materialize/position.py",
        "    if position.topic_id != topic_id:",
        "    if False:",
        (f"{_STEPS}::test_a_table_of_another_topic_or_mode_is_refused",),
    ),
)
