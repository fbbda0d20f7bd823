"""The producers of this process that are open: closed when the program ends, unusable in a forked child."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from sparklog.host.exit import before_exit
from sparklog.host.fork import after_fork_in_child

log = logging.getLogger("sparklog")


class OpenProducer(Protocol):
    """A producer, as far as the end of its process is concerned."""

    def close(self) -> None: ...

    def abandon(self) -> None: ...


open_producers: Final[set[OpenProducer]] = set()


def _close_all() -> None:
    for producer in list(open_producers):
        try:
            producer.close()
        except Exception as error:
            log.warning("a producer could not be closed at the end of the program: %s", error)


def _abandon_all() -> None:
    for producer in list(open_producers):
        producer.abandon()
    open_producers.clear()


before_exit(_close_all)
after_fork_in_child(_abandon_all)
