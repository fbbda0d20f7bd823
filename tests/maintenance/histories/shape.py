"""What a history is made of: the kind of log, the steps, and the records, all from dice."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.maintenance.histories.partition_model import NEVER, Row, Rules

TOPIC: Final = "t"
PARTITIONS: Final = 2
FLOOR_DELAY_MS: Final = 8_000
KEYS: Final = "abcd"

WEIGHTS: Final = {
    "append": 7,
    "roll": 3,
    "compact": 4,
    "retain": 2,
    "delete": 1.5,
    "vacuum": 1.5,
    "snapshot": 1,
    "wait": 2.5,
    "plan": 2,
    "read": 1.5,
    "replicate": 2,
    "recover": 1,
    "damage": 1,
    "fence": 1.2,
    "register": 2,
}
OF_REPLICAS: Final = ("replicate", "recover", "damage", "fence", "register")
NOT_NESTED: Final = ("fence", "damage")  # they are careful about what goes on, and can't know what is under way
# What hurts somebody who is held up: others rewrite what it read, FLOOR passes it, or its objects are deleted.
MEANWHILE: Final = (
    ("append", "roll", "compact"),
    ("roll", "compact", "append"),
    ("compact", "compact"),
    ("append", "wait", "wait", "wait", "vacuum"),
    ("wait", "retain", "delete"),
)
# What a reader meets that is late, and what a tombstone may bring back.
EPISODES: Final = (
    ("append", "roll", "plan", "append", "roll", "compact", "retain", "read"),
    ("append", "plan", "delete", "retain", "read"),
    ("append", "roll", "delete", "append", "roll", "compact", "wait", "compact"),
)


class Step(NamedTuple):
    """One step, and the seed of its details."""

    name: str
    dice: int


@dataclass(frozen=True)
class LogShape:
    """The kind of log: its stores and its topic's config."""

    stores: tuple[str, ...]
    config: dict[str, object]

    @staticmethod
    def of(dice: random.Random) -> LogShape:
        """One in two has three stores, and half of those may elect uncleanly. Three in four are compacted."""
        stores = dice.choice((("a",), ("a", "b", "c")))
        policy = dice.choice(("delete", "compact", "compact,delete", "compact,delete"))
        delays_ms = dice.choice(((0, 0), (0, 2_500), (1_500, 2_500), (30_000, 20_000)))
        config: dict[str, object] = {
            "cleanup.policy": policy,
            "segment.bytes": dice.choice((700, 1_500, 1 << 20)),
            "segment.ms": dice.choice((4_000, 1 << 40)),
            "retention.ms": dice.choice((NEVER, 5_000, 15_000)),
            "retention.bytes": dice.choice((NEVER, NEVER, 2_000)),
            "file.delete.delay.ms": delays_ms[0],
            "rewrite.delete.delay.ms": delays_ms[1],
            "delete.retention.ms": dice.choice((0, 2_000, 8_000)),
            "min.cleanable.dirty.ratio": dice.choice((0, 0.5)),
            "min.compaction.lag.ms": dice.choice((0, 0, 2_000)),
            "max.compaction.lag.ms": dice.choice((6_000, 1 << 40)),
            "message.timestamp.type": dice.choice(("CreateTime", "CreateTime", "LogAppendTime")),
            "min.insync.replicas": 1,
            "unclean.leader.election.enable": "false",
        }
        if len(stores) > 1:
            config["min.insync.replicas"] = dice.choice((1, 2))
            config["unclean.leader.election.enable"] = dice.choice(("false", "true"))
        return LogShape(stores, config)

    @property
    def is_replicated(self) -> bool:
        return len(self.stores) > 1

    @property
    def compacts(self) -> bool:
        return "compact" in str(self.config["cleanup.policy"])

    @property
    def may_delete(self) -> bool:
        return "delete" in str(self.config["cleanup.policy"])

    @property
    def unclean(self) -> bool:
        return self.config["unclean.leader.election.enable"] == "true"

    @property
    def min_isr(self) -> int:
        return int(str(self.config["min.insync.replicas"]))

    def has(self, step: str) -> bool:
        """Whether there are such steps."""
        if step in OF_REPLICAS:
            return self.is_replicated
        return {"compact": self.compacts, "delete": self.may_delete}.get(step, True)

    def number(self, key: str) -> int:
        """A config key's value."""
        return int(str(self.config[key]))

    @property
    def shortest_delay_ms(self) -> int:
        """How long no object is deleted after the log forgot it, at least."""
        return min(self.number("file.delete.delay.ms"), self.number("rewrite.delete.delay.ms"))

    def cluster_config(self) -> dict[str, object]:
        """The config of the cluster."""
        return {"floor.delay.ms": FLOOR_DELAY_MS}

    def rules(self) -> Rules:
        """What may happen to a partition."""
        return Rules(
            compacts=self.compacts,
            retains=self.may_delete,
            delete_retention_ms=self.number("delete.retention.ms"),
            min_lag_ms=self.number("min.compaction.lag.ms"),
            retention_ms=self.number("retention.ms"),
            retention_bytes=self.number("retention.bytes"),
            unclean=self.unclean,
        )

    def rows(self, dice: random.Random, write: str, now_ms: int) -> list[Row]:
        """The records of a write to one partition: with keys if the log is compacted, and times in any order."""
        appended = self.config["message.timestamp.type"] == "LogAppendTime"
        rows = []
        for place in range(dice.randint(1, 6)):
            key = dice.choice(KEYS) if self.compacts or dice.random() < 0.5 else None
            value = dice.choice((None, f"{write}", f"{write}{'x' * 90}"))
            at_us = None if appended else (now_ms + dice.randint(-6_000, 1_000)) * 1_000 + dice.randrange(1_000)
            rows.append(Row(key, value, f"{write}-{place}", at_us))
        return rows


def steps_of(dice: random.Random, shape: LogShape) -> list[Step]:
    """The steps of a history: single ones and episodes."""
    names = [name for name in WEIGHTS if shape.has(name)]
    chosen: list[str] = []
    for _ in range(dice.randint(10, 22)):
        chosen += dice.choices(names, [WEIGHTS[name] for name in names])
        if dice.random() < 0.12:
            chosen += [name for name in dice.choice(EPISODES) if shape.has(name)]
    return [Step(name, dice.getrandbits(64)) for name in chosen]


def meanwhile(dice: random.Random, shape: LogShape) -> list[Step]:
    """What happens while a process is held up."""
    names = [name for name in WEIGHTS if shape.has(name) and name not in NOT_NESTED]
    some = dice.choices(names, [WEIGHTS[name] for name in names], k=dice.randint(1, 3))
    chosen = dice.choice([some, *MEANWHILE])
    return [Step(name, dice.getrandbits(64)) for name in chosen if shape.has(name)]
