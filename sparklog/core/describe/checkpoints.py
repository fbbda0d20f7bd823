"""Checkpoints as text, in the format of Kafka's checkpoint files: for users, and to compare after a restore (F-07).

    0                      the version
    2                      the number of lines that follow
    orders 0 1200          topic, partition, offset; in the file of leader epochs: topic, partition, epoch, start offset
    orders 1 1187

A checkpoint lies on the store whose replicas it describes, as of one entry of the chain. It is never used in place of
the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from sparklog.core.errors import InvalidInput
from sparklog.core.maintenance.recovery_point import recovered_end
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import Offset, StoreId, TopicPartition

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANERS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"

_VERSION: Final = "0"


def _cleaned_end(state: ClusterState, store: StoreId, partition: Partition) -> Offset | None:
    cleaner = state.cleaners.get(TopicPartition(partition.topic_id, partition.partition))
    return None if cleaner is None else cleaner.position


# Files with an offset per partition. A partition without one (it was never compacted) has no line.
_OFFSETS: Final[Mapping[str, Callable[[ClusterState, StoreId, Partition], Offset | None]]] = {
    RECOVERY_POINTS: recovered_end,
    HIGH_WATERMARKS: lambda state, store, partition: partition.high_watermark,
    LOG_STARTS: lambda state, store, partition: partition.log_start,
    CLEANERS: _cleaned_end,
}
CHECKPOINTS: Final = (*_OFFSETS, LEADER_EPOCHS)


def checkpoints_of(state: ClusterState, store: StoreId) -> dict[str, str]:
    """Return the text of each checkpoint file for one store, by file name.

    A file has a line for each replica on the store, in the order of topics and partitions. The file of cleaners has
    lines only for partitions that were compacted. The file of leader epochs has a line for each epoch of a replica.
    """
    replicas = list(_replicas(state, store))
    files = {
        name: _file(
            [
                f"{topic} {of.partition} {offset}"
                for topic, of in replicas
                if (offset := offset_of(state, store, of)) is not None
            ]
        )
        for name, offset_of in _OFFSETS.items()
    }
    epochs = [
        f"{topic} {of.partition} {epoch} {start}" for topic, of in replicas for epoch, start in of.replication.epochs
    ]
    return files | {LEADER_EPOCHS: _file(epochs)}


def parse_checkpoint(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """The lines of a checkpoint file, each as a topic and its numbers. Raises InvalidInput unless it is complete."""
    lines = text.split("\n")
    if len(lines) < 3 or lines[0] != _VERSION or lines[1] != str(len(lines) - 3) or lines[-1]:
        raise InvalidInput(f"wanted a checkpoint of version {_VERSION} with as many lines as it says, found {text!r}")
    entries = []
    for line in lines[2:-1]:
        topic, *numbers = line.split(" ")
        if not numbers or not all(number.isdecimal() and number.isascii() for number in numbers):
            raise InvalidInput(f"wanted a topic and numbers, found {line!r} in a checkpoint")
        entries.append((topic, tuple(map(int, numbers))))
    return entries


def _replicas(state: ClusterState, store: StoreId) -> Iterator[tuple[str, Partition]]:
    for name in sorted(state.topic_ids):
        for partition in state.partitions_of(state.topics[state.topic_ids[name]]):
            if store in partition.replication.replicas:
                yield name, partition


def _file(lines: list[str]) -> str:
    return "\n".join([_VERSION, str(len(lines)), *lines, ""])
