"""The guards of the log, one entry each: the text that guards, what replaces it, and the tests that notice.

`make guards` removes them one by one (`__main__.py`). `make test` fails if a text has changed: correct its entry in the
list of its package, beside this file.
"""

from __future__ import annotations

from typing import Final

from tests.guards import (
    agent,
    chain,
    compacted,
    compaction,
    connections,
    consumer,
    coordinator,
    copies,
    core,
    delete_records,
    forgetting,
    groups,
    lagging,
    log,
    materialize,
    metadata_copies,
    old_entries,
    pages,
    producing,
    reading,
    recovery,
    remounted,
    replication,
    returning_stores,
    scheduling,
    security,
    spark,
    storage,
    stores,
    streams,
    three_stores,
    verify,
    waiting,
    writes,
)
from tests.guards.guard import Guard

GUARDS: Final[tuple[Guard, ...]] = (
    *core.GUARDS,
    *compacted.GUARDS,
    *compaction.GUARDS,
    *replication.GUARDS,
    *stores.GUARDS,
    *returning_stores.GUARDS,
    *forgetting.GUARDS,
    *groups.GUARDS,
    *producing.GUARDS,
    *consumer.GUARDS,
    *delete_records.GUARDS,
    *copies.GUARDS,
    *agent.GUARDS,
    *lagging.GUARDS,
    *chain.GUARDS,
    *coordinator.GUARDS,
    *waiting.GUARDS,
    *connections.GUARDS,
    *security.GUARDS,
    *pages.GUARDS,
    *scheduling.GUARDS,
    *metadata_copies.GUARDS,
    *old_entries.GUARDS,
    *reading.GUARDS,
    *recovery.GUARDS,
    *remounted.GUARDS,
    *log.GUARDS,
    *materialize.GUARDS,
    *writes.GUARDS,
    *storage.GUARDS,
    *spark.GUARDS,
    *streams.GUARDS,
    *three_stores.GUARDS,
    *verify.GUARDS,
)
