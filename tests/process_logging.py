"""Keep the logging of a process of pytest: a test that changes it leaves it as it was.

Two tests that share a process meet through it. Spark logs an error about a query through a logger that does not
propagate; pytest attaches its own handlers to every such logger; and this one (PySparkLogger) gives each handler that
is attached to it a formatter that writes JSON and leaves a record without its `message`. The handlers are the same for
all tests of the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ProcessLogging:
    """The configuration of all loggers and handlers of this process at one time."""

    loggers: dict[logging.Logger, tuple[int, list[logging.Handler], list[Any], bool, bool]]
    handlers: dict[logging.Handler, tuple[int, logging.Formatter | None, list[Any]]]
    logger_class: type[logging.Logger]
    record_factory: Callable[..., logging.LogRecord]
    disabled_below: int

    @classmethod
    def now(cls) -> ProcessLogging:
        """The configuration as it is."""
        handlers = [handler for reference in logging._handlerList if (handler := reference()) is not None]
        return cls(
            {
                each: (each.level, [*each.handlers], [*each.filters], each.propagate, each.disabled)
                for each in (logging.root, *_loggers())
            },
            {each: (each.level, each.formatter, [*each.filters]) for each in handlers},
            logging.getLoggerClass(),
            logging.getLogRecordFactory(),
            logging.root.manager.disable,
        )

    def put_back(self) -> None:
        """Restore it. Loggers and handlers that are new since then stay as they are."""
        for logger, (level, handlers, filters, propagate, disabled) in self.loggers.items():
            if logger.level != level:
                logger.setLevel(level)
            logger.handlers[:], logger.filters[:] = handlers, filters
            logger.propagate, logger.disabled = propagate, disabled
        for handler, (level, formatter, filters) in self.handlers.items():
            handler.setLevel(level)
            handler.setFormatter(formatter)
            handler.filters[:] = filters
        logging.setLoggerClass(self.logger_class)
        logging.setLogRecordFactory(self.record_factory)
        if logging.root.manager.disable != self.disabled_below:
            logging.disable(self.disabled_below)


def forget_loggers_of_spark() -> None:
    """Let Spark make them anew when it needs one. Call this before pytest attaches its handlers."""
    for logger in _loggers():
        if type(logger).__module__.startswith("pyspark."):
            del logging.root.manager.loggerDict[logger.name]


def _loggers() -> list[logging.Logger]:
    return [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
