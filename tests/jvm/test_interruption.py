"""A thread of Spark that is interrupted, as Interruption.java marks it."""

from __future__ import annotations

from tests.jvm.java_program import run_java


def test_a_thread_of_spark_is_marked_as_interrupted_while_it_is_still_being_interrupted() -> None:
    done = run_java("planner.Interrupted")
    assert done.stdout == "true", done.stderr[-3000:]
