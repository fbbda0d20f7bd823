"""Random histories of members that consume, transform and produce: whatever happens, each order makes one bill."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.client.producer.producer import Producer
from sparklog.core.commands import Append, LeaveGroup, Submission
from sparklog.core.errors import Conflict, OutcomeUnknown, UnknownMemberId
from sparklog.core.records import CommandResult
from tests.client.orders import cluster
from tests.kit.log import fill

__all__ = ["cluster"]

PARTITIONS, INSTANCES = 3, 3


class Member:
    """A process with a consumer and a producer, whose appends may stay without an answer."""

    def __init__(self, url: str, dice: random.Random, instance_id: str | None) -> None:
        self.cluster = sparklog.connect(url)
        self.dice = dice
        self.instance_id = instance_id
        self.lost = 0  # how many of the next appends get no answer
        self.consumer: Consumer = self.cluster.consumer(
            "orders",
            group="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_instance_id=instance_id,
        )
        self.producer: Producer = self.cluster.producer()
        self._submit = self.cluster.connection.committer.submit
        setattr(self.cluster.connection.committer, "submit", self._unheard)  # noqa: B010

    def _unheard(self, submission: Submission, *args: Any, **kwargs: Any) -> CommandResult:
        if self.lost and isinstance(submission.command, Append):
            self.lost -= 1
            if self.dice.random() < 0.5:
                self._submit(submission, *args, **kwargs)
            raise OutcomeUnknown("no answer")
        return self._submit(submission, *args, **kwargs)

    def work(self) -> bool:
        """A transaction, perhaps of several polls, which may fail. False if there was nothing to do."""
        self.consumer._reading._look_due_ms = 0
        seen = 0
        try:
            with self.producer.transaction() as transaction:
                transaction.send_offsets(self.consumer)
                for _ in range(self.dice.choice([1, 1, 2])):
                    for records in self.consumer.poll(max_records=self.dice.randint(1, 9)).values():
                        for record in records:
                            transaction.send("bills", record.value, key=record.value)
                            seen += 1
                if self.dice.random() < 0.1:
                    raise ValueError("as work may fail")
        except (ValueError, OutcomeUnknown, Conflict):
            return True
        return seen > 0

    def vanish(self) -> None:
        """Die without a word; the group evicts it, unless it is static and may come back."""
        own = self.consumer._reading._shares._member
        if self.instance_id is None and own is not None:
            with suppress(UnknownMemberId):
                self.cluster.submit(LeaveGroup("billing", own.member_id))


def history(cluster: Cluster, seed: int, steps: int) -> None:
    dice = random.Random(seed)
    cluster.create_topic("bills", partitions=2)
    url, filled = cluster.connection.url, [6] * PARTITIONS
    members = [Member(url, dice, None)]
    for _ in range(steps):
        match dice.choice(["work"] * 6 + ["fill", "lose", "join", "vanish"]):
            case "work":
                dice.choice(members).work()
            case "fill":
                partition, more = dice.randrange(PARTITIONS), dice.randint(1, 5)
                fill(cluster, partition, more, first=filled[partition])
                filled[partition] += more
            case "lose":
                dice.choice(members).lost += dice.randint(1, 2)
            case "join":
                taken = {member.instance_id for member in members}
                free = [name for name in ("a", "b", "c") if name not in taken]
                members.append(Member(url, dice, dice.choice([None, *free])))
            case "vanish" if len(members) > 1:
                members.pop(dice.randrange(len(members))).vanish()
    if cluster.groups():
        for left in cluster.describe_group("billing").members:
            cluster.submit(LeaveGroup("billing", left.member))  # also of static members that did not come back
    last = Member(url, dice, None)
    idle = 0
    while idle < 3:
        idle = 0 if last.work() else idle + 1
    there = [cluster.read("bills", partition=partition)["value"].to_pylist() for partition in range(2)]
    wanted = [f"{partition}-{at}".encode() for partition in range(PARTITIONS) for at in range(filled[partition])]
    assert Counter(value for values in there for value in values) == Counter(wanted), seed


@pytest.mark.parametrize("seed", range(12))
def test_each_order_makes_one_bill(cluster: Cluster, seed: int) -> None:
    history(cluster, seed, 60)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_each_order_makes_one_bill_in_many_histories(cluster: Cluster, seed: int) -> None:
    history(cluster, seed, 150)
