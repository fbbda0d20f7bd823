"""Guards of files and tables that become records: no row is left out, changed or deleted in silence."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_CHANGES: Final = "sparklog/spark/produce/delta_changes.py"
_TABLES: Final = "tests/spark/materialize/test_delta_changes.py::"
_TIMES: Final = "tests/spark/produce/formats/test_parquet_times.py::"
_SOURCE: Final = "tests/spark/produce/test_input_source.py::"

GUARDS: Final = (
    Guard(
        "changes-remaining-row",
        "A key that another row of the table still has gets no tombstone.",
        _CHANGES,
        '    if counts["keys"]:\n',
        "    if False:\n",
        (_TABLES + "test_a_key_that_another_row_still_has_keeps_the_value_of_that_row",),
    ),
    Guard(
        "changes-several-rows",
        "Of several different rows with the key of a deleted one, none is taken for the newest.",
        _CHANGES,
        '        if counts["most"] > 1:\n',
        "        if False:\n",
        (_TABLES + "test_a_key_in_several_rows_is_named_if_one_of_them_is_deleted",),
    ),
    Guard(
        "changes-no-partition",
        "A row without a partition that was updated is found among the new rows.",
        _CHANGES,
        'sql.col(f"left.{name}").eqNullSafe(sql.col(f"right.{name}"))',
        'sql.col(f"left.{name}") == sql.col(f"right.{name}")',
        (_TABLES + "test_an_updated_row_that_names_no_partition_leaves_no_tombstone",),
    ),
    Guard(
        "hidden-files",
        "A file that Spark would skip for its name stops the run.",
        "sparklog/spark/produce/paths.py",
        '                raise _hidden_file_error("/".join(parts), root)\n',
        "                continue\n",
        (_SOURCE + "test_files_that_spark_would_leave_out_or_mistake_are_refused",),
    ),
    Guard(
        "hidden-files-elsewhere",
        "Files on other systems, and those of patterns, are listed too before they are read.",
        "sparklog/spark/produce/input_source.py",
        "listed_files(session, source.path) if local is None else [(",
        "[] if local is None else [(",
        (_SOURCE + "test_files_on_any_system_are_read_or_counted_or_refused",),
    ),
    Guard(
        "int96-nanoseconds",
        "A time in INT96 that Spark would cut stops the run, wherever the file is.",
        "sparklog/spark/produce/input_source.py",
        "    check_int96_times(frame)\n",
        "",
        (_TIMES + "test_they_are_found_in_folders_and_patterns_as_in_files",),
    ),
    Guard(
        "int96-by-spark",
        "A file that only kept the name of Spark is not taken for one that Spark wrote.",
        "sparklog/spark/produce/formats/parquet_times.py",
        "    return is_of_its_library and bool(",
        "    return bool(",
        (_TIMES + "test_files_of_spark_are_not_read_twice_but_one_that_keeps_its_name_is",),
    ),
    Guard(
        "int96-not-read",
        "Times in a column that Spark leaves out stop no run.",
        "sparklog/spark/produce/formats/parquet_times.py",
        "if next(is_int96, False) and read is not None else",
        "if next(is_int96, False) else",
        (_TIMES + "test_files_and_columns_that_spark_does_not_read_stop_no_run",),
    ),
    Guard(
        "json-field-used",
        "A JSON field that Spark would change fails the rows that use it.",
        "sparklog/spark/produce/input_source.py",
        "sql.when(sql.col(UNREADABLE).isNotNull() & names_it, failed.cast(field.dataType)).otherwise(value)",
        "value",
        (
            "tests/spark/produce/test_exact.py::"
            "test_json_that_spark_cannot_read_is_an_error_and_no_null_where_it_is_used",
        ),
    ),
    Guard(
        "json-digits-in-strings",
        "A string of many digits is no number that is too long for Spark.",
        "sparklog/spark/produce/formats/json_rows.py",
        """_is_long(_STRING_TEXT.sub('""', text))""",
        "_is_long(text)",
        ("tests/spark/produce/formats/test_json_rows.py::test_only_digits_of_numbers_are_too_many_for_spark",),
    ),
)
