"""The guards of the log, one entry each: the text that guards, what replaces it, and the tests that notice.

`make guards` removes them one by one (`__main__.py`). `make test` fails if a text has changed: correct its entry in the
list of its package, beside this file.
"""

from __future__ import annotations

from typing import Final

from tests.guards import (
    agent,
    chain,
    coordinator,
    copies,
    core,
    forgetting,
    lagging,
    log,
    reading,
    replication,
    spark,
    storage,
    stores,
    three_stores,
    writes,
)
from tests.guards.guard import Guard

GUARDS: Final[tuple[Guard, ...]] = (
    *core.GUARDS,
    *replication.GUARDS,
    *stores.GUARDS,
    *forgetting.GUARDS,
    *copies.GUARDS,
    *agent.GUARDS,
    *lagging.GUARDS,
    *chain.GUARDS,
    *coordinator.GUARDS,
    *reading.GUARDS,
    *log.GUARDS,
    *writes.GUARDS,
    *storage.GUARDS,
    *spark.GUARDS,
    *three_stores.GUARDS,
)
