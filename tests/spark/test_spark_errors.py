"""What Spark raises becomes one plain line, with the code of the error behind it."""

from __future__ import annotations

from sparklog.core.errors import InvalidInput, Landed, NotFound, OutcomeUnknown, RecordTooLarge, SparklogError
from sparklog.spark.spark_errors import explained

WRAPPED = """[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source instance raise error: Traceback:
  File "batch_writer.py", line 1, in write
sparklog.core.errors.{kind}: {code}: what was wanted, [a, b) was found
 SQLSTATE: 38000
"""


def test_an_error_of_a_task_comes_back_as_itself() -> None:
    found = explained(RuntimeError(WRAPPED.format(kind="RecordTooLarge", code="RECORD_TOO_LARGE")), "a.csv")
    assert type(found) is RecordTooLarge
    assert str(found) == "RECORD_TOO_LARGE: what was wanted, [a, b) was found"


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


def test_anything_else_is_told_by_its_first_line() -> None:
    found = explained(RuntimeError("the disk is on fire\n at a\n at b"), "a.csv")
    assert (type(found), found.message, found.exit_code) == (SparklogError, "a.csv: the disk is on fire", 1)
    own = NotFound("x")
    assert explained(own, "a.csv") is own
