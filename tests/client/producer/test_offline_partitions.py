"""Partitions without a leader: the others go on, and what waited is written once there is one."""

from __future__ import annotations

from sparklog.client.producer.record_future import RecordFuture
from tests.client.producer.test_producer import LONG_MS, WAIT_S, entries, sent
from tests.client.replicated_cluster import in_memory


def test_an_offline_partition_does_not_hold_up_the_others() -> None:  # M: P-09
    with in_memory("ab") as cluster:
        cluster.create_topic("t", assignment=["a", "b"])
        cluster.fence_store("a")
        with cluster.producer(linger_ms=1) as producer:
            waits = [producer.send("t", f"{n}", partition=0) for n in range(3)]
            others = [producer.send("t", f"{n}", partition=1) for n in range(3)]
            assert [future.result(WAIT_S).offset for future in others] == [0, 1, 2]
            more = [producer.send("t", f"{n}", partition=n % 2) for n in range(3, 7)]
            assert more[0].result(WAIT_S).offset == 3
            assert not any(future.done() for future in waits)
            cluster.add_store("a", f"{cluster.connection.url}-a")
            assert [future.result(WAIT_S).offset for future in waits] == [0, 1, 2]
        assert sent(cluster, "t") == {0: ["0", "1", "2", "4", "6"], 1: ["0", "1", "2", "3", "5"]}


def test_what_waited_for_a_leader_is_written_together_once_there_is_one() -> None:  # M: P-09
    with in_memory("ab") as cluster:
        cluster.create_topic("t", assignment=["a", "b"])
        cluster.fence_store("a")
        with cluster.producer(linger_ms=0) as producer:
            waits: list[RecordFuture] = []
            for n in range(30):  # a flush each
                waits += [producer.send("t", f"{n}/{part}", partition=0) for part in range(2)]
                assert producer.send("t", f"{n}", partition=1).result(WAIT_S).offset == n
            before = entries(cluster)
            cluster.add_store("a", f"{cluster.connection.url}-a")
            assert [future.result(WAIT_S).offset for future in waits] == list(range(60))
            assert entries(cluster) - before < 10
        assert sent(cluster, "t")[0] == [f"{n}/{part}" for n in range(30) for part in range(2)]


def test_records_without_a_key_go_where_there_is_a_leader() -> None:
    with in_memory("ab") as cluster:
        cluster.create_topic("t", assignment=["a", "b", "a"])
        cluster.fence_store("a")
        with cluster.producer(linger_ms=LONG_MS // 2) as producer:
            for n in range(4):
                producer.send("t", f"{n}")
                producer.flush()
        assert sent(cluster, "t") == {1: ["0", "1", "2", "3"]}
