"""Plans a write and uploads its rows in this process; tries again while a partition has no store to upload to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from sparklog.chain.commit.committer import new_command_id
from sparklog.client.connection import Connection
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import Durability, TaskWritten, WritePlan, plan_write
from sparklog.core.errors import NoReplicaOnline
from sparklog.host.clock import now_ms
from sparklog.host.deadline import Deadline, tries
from sparklog.log.write.kept_offsets import KeptOffsets


def plan_and_upload(
    connection: Connection,
    topic: str | None,
    batches: Sequence[pa.RecordBatch],
    compression: str | None,
    durability: Durability,
    timeout_ms: int,
    among: Collection[str] | None = None,
    kept: KeptOffsets | None = None,
) -> tuple[WritePlan, TaskWritten, int]:
    """Plan a write and upload its rows; commits nothing. If `topic` is None, each row names its topic.

    `among`: the topics that rows may name; None: any. `kept`: the offsets that the records keep; None if they get new
    ones. Returns the plan, the uploads, and the time in ms from this call to the start of the successful upload. Raises
    NoReplicaOnline if a partition has no store to upload to until `timeout_ms` is over, and the errors of `plan_write`
    and `upload_task_rows`.
    """
    command_id = new_command_id()
    sticky = int(command_id[:4], 16)  # by chance, so that keyless records of many writes are spread over the partitions
    deadline = Deadline(timeout_ms)
    for _ in tries(deadline):
        state = connection.newest_state()
        plan = plan_write(
            state,
            connection.addresses(state),
            command_id,
            topic=topic,
            compression=compression,
            now_ms=now_ms(),
            durability=durability,
            among=among,
            keep_offsets=kept is not None,
        )
        stores = connection.stores(state)  # with secrets, which a plan does not have
        spent_ms = deadline.spent_ms()
        try:
            return plan, upload_task_rows(plan, batches, sticky=sticky, stores=stores, kept=kept), spent_ms
        except NoReplicaOnline as error:
            offline = error
    raise offline
