"""An object that recovery found damaged on a store, and the type of the callback that notes the outcome of a repair."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from sparklog.core.types import ObjectNumber, StoreId, TopicPartition
from sparklog.log.check.object_check import ObjectCheck
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.verify.recovery_tasks import ObjectToCheck

# Called with a store, partitions, their outcome (None: unchanged), and a message.
Note = Callable[[StoreId, Collection[TopicPartition], WorkOutcome | None, str], None]


class Damage(msgspec.Struct, frozen=True):
    """An object that is not whole on a store.

    `object` also names the slices of the log that are in the object. `check` says what is wrong with it.
    """

    store: StoreId
    object: ObjectToCheck
    check: ObjectCheck

    @property
    def number(self) -> ObjectNumber:
        """The number of the object."""
        return self.object.named.number

    def __str__(self) -> str:
        return f"store {self.store}: {'; '.join(map(str, self.check.findings))}"
