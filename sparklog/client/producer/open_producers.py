"""The open producers of this process: flushed at the end of the program, and disabled in a forked child."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from sparklog.host.exit import at_program_end
from sparklog.host.fork import after_fork_in_child

log = logging.getLogger("sparklog")


class OpenProducer(Protocol):
    """The methods of a producer that this module calls: `flush` at the program's end, `abandon` in a forked child."""

    def flush(self) -> None: ...

    def abandon(self) -> None: ...


open_producers: Final[set[OpenProducer]] = set()


def flush_all() -> None:
    """Flush every open producer, without closing it, because other threads may still send. An error is only logged.

    After an interrupt (such as Ctrl-C) records may stay unwritten.
    """
    for producer in list(open_producers):
        try:
            producer.flush()
        except Exception as error:
            log.warning("records sent with a producer may not be written at the end of the program: %s", error)
        except BaseException:
            open_producers.clear()
            raise


def _abandon_all() -> None:
    for producer in list(open_producers):
        producer.abandon()
    open_producers.clear()


at_program_end(flush_all)
after_fork_in_child(_abandon_all)
