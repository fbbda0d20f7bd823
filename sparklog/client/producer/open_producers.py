"""The open producers of this process. The program's end writes the records sent; a forked child can't use them."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from sparklog.host.exit import at_program_end
from sparklog.host.fork import after_fork_in_child

log = logging.getLogger("sparklog")


class OpenProducer(Protocol):
    """The methods of a producer for the end of its process."""

    def flush(self) -> None: ...

    def abandon(self) -> None: ...


open_producers: Final[set[OpenProducer]] = set()


def flush_all() -> None:
    """Write all records sent. Closes nothing, because other threads may still send. An interrupt gives up."""
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
