"""What one test does to the logging of its process no other test sees."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.logger import PySparkLogger

from tests.process_logging import ProcessLogging

LOGGER = logging.getLogger("sparklog.tests")  # there before a test begins


@pytest.fixture
def spark_error() -> Iterator[None]:
    """Spark logs one in each phase of the test, as it does for an error with the text of a query."""
    log_as_spark()
    yield
    log_as_spark()


def log_as_spark() -> None:
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.propagate = False
    logger.error("no such column")


@pytest.mark.usefixtures("spark_error")
@pytest.mark.parametrize("times", [1, 2])
def test_after_an_error_of_spark_pytest_captures_lines_as_before(times: int, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(times):
        logging.getLogger("sparklog").warning("a line of %s", "ours")
    assert [record.getMessage() for record in caplog.records] == ["a line of ours"] * times
    assert [record.message for record in caplog.records] == ["a line of ours"] * times
    assert caplog.text.count("{") == 0
    log_as_spark()


def test_all_that_changed_is_put_back() -> None:
    class Another(logging.Logger):
        pass

    handler = logging.StreamHandler()
    LOGGER.addHandler(handler)
    before = ProcessLogging.now()
    for each in (logging.root, LOGGER):
        each.setLevel(logging.CRITICAL)
        each.addHandler(logging.NullHandler())
        each.addFilter(lambda _: False)
        each.propagate, each.disabled = False, True
    handler.setLevel(logging.CRITICAL)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.addFilter(lambda _: False)
    logging.setLoggerClass(Another)
    logging.setLogRecordFactory(lambda *_: logging.makeLogRecord({}))
    logging.disable()
    assert ProcessLogging.now() != before
    before.put_back()
    after = ProcessLogging.now()
    assert {each: after.loggers[each] for each in before.loggers} == before.loggers
    assert {each: after.handlers[each] for each in before.handlers} == before.handlers
    assert (after.logger_class, after.record_factory) == (before.logger_class, before.record_factory)
    assert after.disabled_below == before.disabled_below


@pytest.mark.parametrize("time", ["first", "second"])
def test_what_a_test_changed_the_next_one_does_not_find(time: str) -> None:
    assert (LOGGER.handlers, LOGGER.level, logging.root.filters) == ([], logging.NOTSET, [])
    LOGGER.addHandler(logging.NullHandler())
    LOGGER.setLevel(logging.DEBUG)
    logging.root.addFilter(lambda _: True)
