"""A producer's records have one order on every replica, though replies get lost and the leader changes meanwhile."""

from __future__ import annotations

import random

import pytest

from sparklog.client.producer import sending
from tests.client.interfered_stores import interfere
from tests.client.producer.test_lost_replies import AT_ONCE, LossyCommits
from tests.client.replicated_cluster import come_back, copy_all, replication, report
from tests.kit.faulty_store import Fault
from tests.kit.log import new_cluster, values

STORES = "abc"
RECORDS = 60


def test_every_replica_has_the_records_in_the_order_in_which_they_were_sent(  # M: I-06 (loses)
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commits = LossyCommits(random.Random(14), sending.commit_append, 0.3)
    monkeypatch.setattr(sending, "commit_append", commits)
    calls = interfere(monkeypatch)
    with new_cluster(STORES) as cluster:
        cluster.create_topic("t", partitions=1, replication_factor=len(STORES))
        with cluster.producer(linger_ms=0, batch_size=1) as producer:
            futures = []
            for n in range(AT_ONCE):  # a flush each
                futures.append(producer.send("t", f"{n}"))
                commits.await_under_way(n + 1)
            futures += [producer.send("t", f"{n}") for n in range(AT_ONCE, RECORDS // 2)]
            leader = replication(cluster).leader
            assert leader is not None
            cluster.fence_store(leader)
            futures += [producer.send("t", f"{n}") for n in range(RECORDS // 2, RECORDS)]
        assert commits.lost >= 2
        assert [future.result(0).offset for future in futures] == list(range(RECORDS))
        come_back(cluster, leader)
        copy_all(cluster, next(name for name in STORES if name != leader), leader)
        report(cluster, leader)
        assert replication(cluster).log_ends == (RECORDS,) * len(STORES)
        for only in STORES:
            calls.before = {name: lambda call, key: Fault.UNAVAILABLE for name in STORES if name != only}
            assert values(cluster) == [f"{n}" for n in range(RECORDS)], f"on store {only}"
