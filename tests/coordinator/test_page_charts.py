"""The charts of a topic and of a group: what was appended, and the lag, of the last minutes; few of each are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import sparklog
from sparklog.chain.commit.commit_counts import AppendCounts
from sparklog.coordinator.watching import activity as activity_module
from sparklog.coordinator.watching import sampling as sampling_module
from sparklog.coordinator.watching.activity import Activity, Sample, appended_rates
from sparklog.coordinator.watching.sampling import take_lags, take_sample
from sparklog.core.types import TopicId
from tests.coordinator.acting import acting
from tests.coordinator.shown_records import Records, rows

ORDERS, OTHER = TopicId(1), TopicId(2)


def charts(page: Records) -> list[str]:
    return [found["aria-label"] or "" for tag, found in page.tags if tag == "svg"]


def test_a_topic_shows_what_was_appended_to_it(tmp_path: Path) -> None:
    with acting(tmp_path, writes=False) as asked:
        service = asked.coordinator.service
        assert charts(asked.get("/topics/orders")) == [
            "Records, appended per second, in the last 1 min: 0 now, at most 0",
            "Bytes, stored per second, in the last 1 min: 0 now, at most 0",
        ]
        with sparklog.connect(asked.coordinator.address) as cluster:
            cluster.create_topic("other")
            take_sample(service, 1_000, 0)
            cluster.append("orders", rows(["a", "b", "c", "d"]))
            cluster.append("other", rows(["x"]))
            take_sample(service, 3_000, 0)
            take_sample(service, 4_000, 0)
        page = asked.get("/topics/orders")
    assert charts(page)[0] == "Records, appended per second, in the last 1 min: 0 now, at most 2"


def test_a_group_shows_how_far_it_was_behind(tmp_path: Path) -> None:
    with acting(tmp_path, writes=False) as asked:
        assert charts(asked.get("/groups/billing")) == []
        asked.coordinator.run(take_lags(asked.coordinator.service, 1_000))
        with sparklog.connect(asked.coordinator.address) as cluster:
            cluster.append("orders", rows(["a", "b", "c"]))
            cluster.commit_offsets("new", {("orders", 0): 0})
        asked.coordinator.run(take_lags(asked.coordinator.service, 11_000))
        shown, new = asked.get("/groups/billing"), asked.get("/groups/new")
    assert charts(shown) == ["Lag, offsets, in the last 10 min: 5 now, at most 5"]
    assert charts(new) == ["Lag, offsets, in the last 10 min: 7 now, at most 7"]


def test_only_the_groups_that_are_furthest_behind_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_module, "GROUPS_PER_SAMPLE", 1)
    with acting(tmp_path, writes=False) as asked:
        with sparklog.connect(asked.coordinator.address) as cluster:
            cluster.commit_offsets("behind", {("orders", 0): 0})
        asked.coordinator.run(take_lags(asked.coordinator.service, 1_000))
        assert [list(each.lags) for each in asked.coordinator.service.activity.lags] == [["behind"]]


def test_what_topics_got_is_counted_since_the_sample_before(monkeypatch: pytest.MonkeyPatch) -> None:
    activity = Activity()
    assert activity.newly_appended({ORDERS: AppendCounts(4, 40)}) == {ORDERS: (4, 40)}
    grown = {ORDERS: AppendCounts(4, 40), OTHER: AppendCounts(1, 10)}
    assert activity.newly_appended(grown) == {OTHER: (1, 10)}
    assert activity.newly_appended({OTHER: AppendCounts(0, 0)}) == {OTHER: (0, 0)}, "another lead began anew"
    monkeypatch.setattr(activity_module, "TOPICS_PER_SAMPLE", 1)
    assert activity.newly_appended({ORDERS: AppendCounts(9, 1), OTHER: AppendCounts(1, 9)}) == {OTHER: (1, 9)}


def test_points_of_several_samples_have_all_that_came_between_them() -> None:
    got = [{}, {ORDERS: AppendCounts(2, 20)}, {ORDERS: AppendCounts(4, 40), OTHER: AppendCounts(1, 1)}, {}, {}]
    samples = [Sample(1_000 * at, 0, 0, 0, 0, appended) for at, appended in enumerate(got)]
    assert appended_rates(samples, 1, ORDERS) == [(2, 20), (4, 40), (0, 0), (0, 0)]
    assert appended_rates(samples, 2, ORDERS) == [(3, 30), (0, 0)]
    assert appended_rates(samples[:1], 1, ORDERS) == appended_rates([], 1, ORDERS) == []
