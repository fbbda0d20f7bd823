"""Guards of materialize: each record once in the table, and no record missing unseen."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_JOB: Final = "sparklog/spark/materialize/materialize_job.py"
_ONCE: Final = "tests/spark/materialize/test_exactly_once.py"
_SOURCE: Final = "tests/spark/materialize/test_same_source.py"
_FIELDS: Final = "sparklog/spark/materialize/json_fields.py"
_PLAIN: Final = "sparklog/spark/materialize/plain_json.py"
_TOKENS: Final = "tests/spark/materialize/test_json_fields.py::test_each_type_takes_its_own_token_or_the_value_is_bad"
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
    Guard(
        "json-string-token",
        "A number, a boolean or an object in JSON is no string.",
        _FIELDS,
        'return sql.when(value.startswith("~s"), _behind_tag(value)).when(~other, value)',
        'return sql.when(value.startswith("~s"), _behind_tag(value)).when(~other | other, value)',
        (_TOKENS,),
        "string",
    ),
    Guard(
        "json-decimal-digits",
        "A number with more digits than a decimal has is not rounded.",
        _FIELDS,
        "return sql.when(exact, number.try_cast(type_))",
        "return sql.when(exact | ~exact, number.try_cast(type_))",
        (_TOKENS,),
        "decimal",
    ),
    Guard(
        "json-float-digits",
        "A number that a float would change is bad.",
        _FIELDS,
        "sql.when(good, made)).when(",
        "made).when(",
        (_TOKENS,),
        "double",
    ),
    Guard(
        "json-time-token",
        "A time of day, or a year alone, is no timestamp.",
        _FIELDS,
        'return sql.when(string.rlike(rf"{_TIME}{_ZONE}?+\\z"), _with_seconds(zoned).try_cast(type_))',
        "return _with_seconds(zoned).try_cast(type_)",
        (_TOKENS,),
        "timestamp",
    ),
    Guard(
        "json-date-token",
        "A text that is more or less than a date is none.",
        _FIELDS,
        'sql.when(date.cast("string") == string, date)',
        "date",
        (_TOKENS,),
        "date",
    ),
    Guard(
        "json-base64-token",
        "A text that is not the base64 of its bytes is none.",
        _FIELDS,
        'sql.when(sql.regexp_replace(sql.base64(made), r"\\s", "") == string, made)',
        "made",
        (_TOKENS,),
        "binary",
    ),
    Guard(
        "json-half-pair",
        "Half of a surrogate pair is no text.",
        _FIELDS,
        """sql.regexp_replace(text, _HALF_PAIR, '$1"~x$2')""",
        "text",
        (_TOKENS,),
        "string",
    ),
    Guard(
        "json-one-value",
        "A text that goes on after its object is bad, also if Spark would read the rest as fields beside it.",
        _FIELDS,
        "    result = sql.when(is_one, any_text)",
        "    result = any_text",
        ("tests/spark/materialize/test_json_fields.py::test_what_is_no_json_object_is_bad",),
    ),
    Guard(
        "json-minus-zero",
        "A -0 keeps its sign as a double.",
        _PLAIN,
        'r"(?!-0(?![.eE]))"',
        'r""',
        (_TOKENS,),
        "double",
    ),
    Guard(
        "json-plain-token",
        "A text with a token that Spark would convert is not plain.",
        _PLAIN,
        '    "string": _STRING,\n',
        '    "string": f"{_STRING}|{NUMBER}",\n',
        (_TOKENS,),
        "string",
    ),
    Guard(
        "json-plain-names",
        "A field that is wanted does not pass for one that is not.",
        _PLAIN,
        '(?!(?:{names})")',
        "",
        (_TOKENS,),
        "string",
    ),
)
