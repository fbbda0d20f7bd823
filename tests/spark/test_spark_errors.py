"""What Spark raises becomes one plain line, with the code of the error behind it."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidInput, Landed, NotFound, OutcomeUnknown, RecordTooLarge, SparklogError
from sparklog.spark.spark_errors import explained
from sparklog.storage.http.calls import NoCoordinator

WRAPPED = """[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source instance raise error: Traceback:
  File "batch_writer.py", line 1, in write
sparklog.core.errors.{kind}: {code}: what was wanted, [a, b) was found
 SQLSTATE: 38000
"""


def test_an_error_of_a_task_comes_back_as_itself() -> None:
    found = explained(RuntimeError(WRAPPED.format(kind="RecordTooLarge", code="RECORD_TOO_LARGE")), "a.csv")
    assert type(found) is RecordTooLarge
    assert str(found) == "RECORD_TOO_LARGE: what was wanted, [a, b) was found"
    shared = explained(RuntimeError(WRAPPED.format(kind="InvalidInput", code="INVALID_REQUEST")), "a.csv")
    assert NoCoordinator.code == InvalidInput.code
    assert type(shared) is InvalidInput


def test_an_unknown_outcome_stays_unknown() -> None:
    found = explained(RuntimeError(WRAPPED.format(kind="OutcomeUnknown", code="COMMIT_OUTCOME_UNKNOWN")), "a.csv")
    assert isinstance(found, OutcomeUnknown)
    assert found.landed is Landed.UNKNOWN


def test_the_innermost_condition_is_told_without_the_wrappers() -> None:
    text = (
        "[TASK_WRITE_FAILED] Task failed.\n at x\nCaused by: [CAST_INVALID_INPUT] The value 'x' … SQLSTATE: 22018\n at"
    )
    found = explained(RuntimeError(text), "a.csv")
    assert type(found) is InvalidInput
    assert found.message == "a.csv: CAST_INVALID_INPUT: The value 'x' …"
    assert type(explained(RuntimeError("[PATH_NOT_FOUND] Path does not exist: x."), "x")) is NotFound


def test_a_file_that_cannot_be_read_is_named_with_the_innermost_cause_and_what_to_do() -> None:
    text = (
        "An error occurred while calling o84.save.\n: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] "
        "Encountered error while reading file file:///in/a%20b.csv.gz.  SQLSTATE: KD001\n\tat x.y(Z.scala:1)\n"
        "Caused by: java.io.IOException: outer\n\tat x\n"
        "Caused by: java.io.EOFException: Unexpected end of input stream\n"
        "\tat org.apache.hadoop\n\t... 90 more\n"
    )
    found = explained(RuntimeError(text), "in")
    assert type(found) is InvalidInput
    assert found.message == (
        "/in/a b.csv.gz can't be read to its end: it is cut off, damaged, or not in the format that its name or "
        "--format says (EOFException: Unexpected end of input stream); copy or create it again, or leave it out. "
        "Nothing was written"
    )


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        (
            "[PARQUET_TYPE_ILLEGAL] Illegal Parquet type: INT64 (TIMESTAMP(NANOS,true)). SQLSTATE: 42846",
            "(TIMESTAMP(NANOS,true)): Spark has no times in nanoseconds: write the file with microseconds (pyarrow: "
            "coerce_timestamps='us')",
        ),
        (
            "[PARQUET_TYPE_ILLEGAL] Illegal Parquet type: INT32 (TIME(MILLIS,false))",
            "Spark can't read such times of day",
        ),
        ("[PARQUET_TYPE_ILLEGAL] Illegal Parquet type: FIXED_LEN_BYTE_ARRAY (FLOAT16)", "Spark has no such type"),
        ("[PARQUET_TYPE_NOT_SUPPORTED] Parquet type not yet supported: BINARY (BSON)", "Spark has no such type"),
        ("[UNSUPPORTED_TIME_TYPE] The data type TIME is not supported.", "--conf spark.sql.timeType.enabled=true"),
        (
            "[CANNOT_MERGE_SCHEMAS] Failed merging schemas:\nInitial schema:",
            "x: CANNOT_MERGE_SCHEMAS: Failed merging schemas: the files have columns of one name and different types",
        ),
    ],
)
def test_a_type_that_spark_does_not_read_comes_with_advice(condition: str, line: str) -> None:
    assert line in explained(RuntimeError(condition), "x").message


def test_a_column_that_has_another_type_in_another_file_is_not_called_damaged() -> None:
    text = (
        "An error occurred while calling o50.save.\n: org.apache.spark.SparkException: "
        "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file file:///m.2/2.pq. "
        "Data type mismatches when reading Parquet column [a]. Expected Spark type int, actual Parquet type INT64. "
        "SQLSTATE: KD001\n\tat x.y(Z.scala:1)\nCaused by: x.SchemaColumnConvertNotSupportedException: column: [a]\n"
    )
    found = explained(RuntimeError(text), "in")
    assert type(found) is InvalidInput
    assert found.message == (
        "/m.2/2.pq: wanted column a as int, as in another file, found INT64: run produce for each "
        "kind of file. Nothing was written"
    )


def test_javas_own_errors_are_told_by_what_java_says() -> None:
    text = "An error occurred while calling o84.save.\n: java.lang.OutOfMemoryError: Java heap space\n\tat x\n"
    assert explained(RuntimeError(text), "a.csv").message == "a.csv: java.lang.OutOfMemoryError: Java heap space"


def test_anything_else_is_told_by_its_first_line() -> None:
    found = explained(RuntimeError("the disk is on fire\n at a\n at b"), "a.csv")
    assert (type(found), found.message, found.exit_code) == (SparklogError, "a.csv: the disk is on fire", 1)
    own = NotFound("x")
    assert explained(own, "a.csv") is own
