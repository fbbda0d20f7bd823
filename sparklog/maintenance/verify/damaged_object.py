"""What a recovery found of an object on a store, and how it says what became of that."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from sparklog.core.types import ObjectNumber, StoreId, TopicPartition
from sparklog.log.check.object_check import ObjectCheck
from sparklog.maintenance.job_report import Outcome
from sparklog.maintenance.verify.recovery_tasks import ObjectToCheck

# Called with a store, partitions, their outcome (None: as it was), and what to say.
Note = Callable[[StoreId, Collection[TopicPartition], Outcome | None, str], None]


class Damage(msgspec.Struct, frozen=True):
    """An object that is not whole on a store, with the slices of it that the store should hold, and what was found."""

    store: StoreId
    object: ObjectToCheck
    check: ObjectCheck

    @property
    def number(self) -> ObjectNumber:
        """The number of the object."""
        return self.object.named.number

    def __str__(self) -> str:
        return f"store {self.store}: {'; '.join(map(str, self.check.findings))}"
