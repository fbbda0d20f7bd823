"""Uploads a range of one partition, encoded elsewhere, whose records keep their offsets: a task of a mirror."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sparklog.client.plans.task_upload import in_doubt, lanes_of, new_upload_id, note_slow_stores, without_failed
from sparklog.client.plans.write_plan import TaskWritten, WritePlan
from sparklog.core.decide.named_offsets import check_takes
from sparklog.core.errors import KeyExists, NoReplicaOnline, OutcomeUnknown
from sparklog.core.types import Offset, PartitionIndex, TimestampSource
from sparklog.log.batch import EncodedBatch
from sparklog.log.write.objects_writer import WriteTarget
from sparklog.log.write.range_writer import RangeWriter


class RangeUpload:
    """Uploads a range that begins at `next_offset`. Call `add` any number of times, then `finish`; or `drop`.

    The plan is that of a write to one mirror topic. Raises PolicyViolation if it is not mirrored, NoReplicaOnline if
    the partition has no store to upload to, and the stores' errors.
    """

    def __init__(self, plan: WritePlan, partition: PartitionIndex, next_offset: Offset) -> None:
        assert plan.topic is not None
        topic = plan.topics[plan.topic]
        check_takes(topic.name, topic.mirror_of, named=True)
        holders = topic.stores_of(partition)
        if not holders:
            raise NoReplicaOnline(
                f"{topic.name}-{partition}: no store of its replicas could be reached when this write began"
            )
        target = WriteTarget(topic.topic_id, topic.name, topic.partitions, topic.max_message_bytes, plan.n0)
        self._plan = plan
        self._topic_id = topic.topic_id
        self._open = ExitStack()
        self._lanes = self._open.enter_context(lanes_of(plan))
        self._writer = RangeWriter(self._lanes, target, partition, holders, next_offset, new_upload_id)
        self._open.callback(self._writer.abort)

    def add(self, batch: EncodedBatch, first: Offset, source: TimestampSource) -> None:
        """Upload a batch, whose first record has offset `first`."""
        with self._errors():
            self._writer.append(batch, first, source)

    def finish(self, end: Offset, *, keyless: bool) -> TaskWritten:
        """Return what was uploaded, which covers the offsets up to `end`. `keyless`: some record has no key."""
        with self._errors(), self._open:
            objects, slices = self._writer.finish(end)
            written = TaskWritten(objects, slices, (self._topic_id,) if keyless else ())
            return without_failed(self._plan, written, self._lanes.errors())

    def drop(self) -> None:
        """Give up what is not uploaded yet."""
        self._open.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OutcomeUnknown, KeyExists) as error:
            raise in_doubt(error) from error
        finally:
            note_slow_stores(self._plan, self._lanes)
