"""A log beside a model of it: every append is remembered with its outcome, and the log is compared with that.

    log = ModelledLog.create(url)                  # a cluster with a topic of two partitions
    log.append(cluster)                            # acknowledged, refused or in doubt: remembered, never raised blindly
    log.check()                                    # nothing acknowledged is missing, nothing is there twice

One writer at a time, so the order of calls is the order of offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.core.errors import Landed, SparklogError

TOPIC = "orders"
PARTITIONS = 2
RECORDS = 3  # per partition and append


@dataclass(slots=True)
class Written:
    """One append by its number. `landed` is what its caller was told, until a check has seen the log."""

    number: int
    landed: Landed
    starts: tuple[int, ...] | None = None  # offsets per partition, if it was acknowledged

    def values(self, partition: int) -> list[bytes]:
        return [b"append %d, partition %d, record %d" % (self.number, partition, at) for at in range(RECORDS)]


@dataclass
class ModelledLog:
    """`witness` is a connection that only reads: what it sees is compared with the model."""

    url: str
    witness: Cluster
    history: list[Written] = field(default_factory=list)
    seen: list[int] = field(default_factory=lambda: [0] * PARTITIONS)  # offsets that have been compared already

    @classmethod
    def create(cls, url: str, storage: Mapping[str, str] | None = None) -> ModelledLog:
        """A new log. `storage`: how the witness reaches the cluster."""
        init_cluster(url, storage=storage)
        made = cls(url, connect(url, storage=storage))
        made.witness.create_topic(TOPIC, partitions=PARTITIONS)
        return made

    def append(self, cluster: Cluster, timeout_ms: int) -> SparklogError | None:
        """Append the next records through `cluster`; returns the error that the caller was told, if any."""
        written = Written(len(self.history), Landed.UNKNOWN)
        self.history.append(written)
        try:
            result = cluster.append(TOPIC, self.rows(written), timeout_ms=timeout_ms)
        except SparklogError as error:
            written.landed = error.landed
            return error
        written.landed = Landed.YES
        written.starts = tuple(each.start for each in sorted(result.ranges, key=lambda each: each.partition))
        return None

    @staticmethod
    def rows(written: Written) -> pa.RecordBatch:
        values = [value for partition in range(PARTITIONS) for value in written.values(partition)]
        partitions = [partition for partition in range(PARTITIONS) for _ in range(RECORDS)]
        return pa.record_batch({"value": values, "partition": pa.array(partitions, pa.int32())})

    def check(self) -> None:
        """Check that what the witness sees beyond the last check is what the model says, in all partitions alike."""
        self._compare(self.witness)

    def check_all(self, cluster: Cluster) -> None:
        """Check the same from the first record on, through `cluster`."""
        self.seen = [0] * PARTITIONS
        self._compare(cluster)

    def expected(self, partition: int) -> list[bytes]:
        """All records of a partition, once a check has settled everything in doubt."""
        return [value for each in self.history if each.landed is Landed.YES for value in each.values(partition)]

    def _compare(self, cluster: Cluster) -> None:
        found = [self._unseen(cluster, partition) for partition in range(PARTITIONS)]
        offsets = list(self.seen)
        for each in self.history:
            if each.starts is not None and any(start < low for start, low in zip(each.starts, self.seen, strict=True)):
                continue  # compared already
            there = [found[partition][:RECORDS] == each.values(partition) for partition in range(PARTITIONS)]
            match each.landed:
                case Landed.YES:
                    assert all(there), f"acknowledged append {each.number} is missing: {found}"
                    assert each.starts in (None, tuple(offsets)), f"append {each.number} was told {each.starts}"
                case Landed.NO:
                    assert not any(there), f"append {each.number} was refused with landed=no, and is there"
                case Landed.UNKNOWN:
                    assert len(set(there)) == 1, f"append {each.number} is there in one partition only: {found}"
                    each.landed = Landed.YES if there[0] else Landed.NO
            if all(there):
                each.starts = tuple(offsets)
                for partition in range(PARTITIONS):
                    del found[partition][:RECORDS]
                    offsets[partition] += RECORDS
        assert not any(found), f"records that nobody wrote, or twice: {found}"
        self.seen = offsets

    def _unseen(self, cluster: Cluster, partition: int) -> list[bytes]:
        rows = cluster.read(TOPIC, partition=partition, start=self.seen[partition], columns=["value", "offset"])
        assert rows["offset"].to_pylist() == list(range(self.seen[partition], self.seen[partition] + len(rows)))
        return rows["value"].to_pylist()
