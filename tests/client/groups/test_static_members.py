"""Static members (KIP-345): a restart within the session keeps what the member had, and fences its former life."""

from __future__ import annotations

import pytest

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.client.consumer.listener import RebalanceListener
from sparklog.core.errors import FencedInstanceId, InvalidGroupId, InvalidOption
from tests.client.orders import P0, P1, P2, RECORDS, cluster, committed, consumer, settle, values
from tests.kit.hand_clock import HandClock

__all__ = ["cluster"]


def static(cluster: Cluster, instance_id: str, clock: HandClock | None = None, **options: object) -> Consumer:
    return consumer(cluster, clock, group_instance_id=instance_id, **options)


def generation(cluster: Cluster) -> int:
    return cluster.describe_group("billing").generation


def test_a_restart_within_the_session_keeps_the_share_without_a_rebalance(cluster: Cluster) -> None:
    a, b = static(cluster, "a"), static(cluster, "b")
    assert settle(a, b) == [(P0, P1), (P2,)]
    before = generation(cluster)
    assert len(values(a, 4)) == 4
    a.commit()
    a.close()
    assert [member.instance_id for member in cluster.describe_group("billing").members] == ["a", "b"]
    again = static(cluster, "a")
    assert settle(again, b) == [(P0, P1), (P2,)]
    assert generation(cluster) == before
    assert len(values(again)) == 2 * RECORDS - 4, "it goes on where its former life has committed"
    assert len(values(b)) == RECORDS
    again.commit()
    b.commit()
    assert committed(cluster) == {P0: RECORDS, P1: RECORDS, P2: RECORDS}


def test_the_former_life_of_a_member_is_fenced_and_does_not_take_its_place_back(cluster: Cluster) -> None:
    old = static(cluster, "a")
    settle(old)
    values(old, 4)
    new = static(cluster, "a")
    settle(new)
    with pytest.raises(FencedInstanceId, match="group_instance_id a"):
        old.commit()
    for _ in range(2):
        old._reading._look_due_ms = 0
        with pytest.raises(FencedInstanceId):
            old.poll()
    assert len(values(new)) == 3 * RECORDS
    new.commit()
    assert committed(cluster) == {P0: RECORDS, P1: RECORDS, P2: RECORDS}


def test_a_member_that_does_not_come_back_loses_its_place_after_its_session(cluster: Cluster) -> None:
    clock = HandClock()
    a, b = static(cluster, "a", clock), static(cluster, "b", clock)
    settle(a, b)
    a.close()
    for _ in range(5):
        clock.pause(10_000)
        settle(b)
    assert b.assignment() == (P0, P1, P2)
    late = static(cluster, "a", clock)
    assert settle(late, b, late) == [(P0, P1), (P2,), (P0, P1)]


def test_another_subscription_begins_the_next_generation(cluster: Cluster) -> None:
    cluster.create_topic("more", partitions=1)
    a = static(cluster, "a")
    settle(a)
    before = generation(cluster)
    again = static(cluster, "a")
    again.subscribe(["orders", "more"])
    settle(again)
    assert generation(cluster) == before + 1
    assert set(again.assignment()) == {P0, P1, P2, ("more", 0)}
    assert len(cluster.describe_group("billing").members) == 1


def test_shares_follow_instances_and_not_the_random_ids_of_their_lives(cluster: Cluster) -> None:
    members = [static(cluster, name) for name in ("c", "a", "b")]
    assert settle(*members) == [(P2,), (P0,), (P1,)]


def test_an_instance_id_is_a_short_name_and_needs_a_group(cluster: Cluster) -> None:
    for wrong in ("", " a", "a" * 201):
        with pytest.raises(InvalidGroupId, match="group_instance_id"):
            static(cluster, wrong)
    with pytest.raises(InvalidOption, match="group_instance_id"):
        sparklog.connect(cluster.connection.url).consumer("orders", group_instance_id="a")


def test_a_fenced_member_that_is_closed_warns_and_tells_its_listener(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    class Told(RebalanceListener):
        revoked: list[object] = []  # noqa: RUF012

        def on_partitions_revoked(self, partitions: object) -> None:
            self.revoked.append(partitions)

    old = static(cluster, "a", enable_auto_commit=True, auto_commit_interval_ms=10**9)
    old.subscribe("orders", listener=Told())
    settle(old)
    old.poll()
    settle(static(cluster, "a"))
    old.close()
    assert "offsets were not committed" in caplog.text
    assert Told.revoked == [[P0, P1, P2]]
