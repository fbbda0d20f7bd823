"""A stream with `groupId` in the metrics of a coordinator, whose packages the environments of other Sparks lack."""

from __future__ import annotations

import pytest

from sparklog.client.cluster import Cluster
from tests.coordinator.served_coordinator import served_coordinator
from tests.coordinator.test_group_lag import scraped
from tests.spark.stream.driven_stream import send
from tests.spark.stream.test_consumed import GROUP, filled, shouted
from tests.spark.stream.test_streams import Sink, Stream, sink, stream

__all__ = ["filled", "sink", "stream"]

pytestmark = pytest.mark.spark


def test_a_coordinator_shows_how_far_a_stream_is_behind(filled: Cluster, stream: Stream, sink: Sink) -> None:
    with served_coordinator(filled.connection.url) as served:
        sink(shouted(stream(groupId=GROUP)), topic="out", groupId=GROUP)
        send(filled, "in", 0, 5)
        found = scraped(served.address)
        assert found["kafka_consumergroup_lag", (GROUP, "in")] == found["sparklog_group_lag_records", (GROUP,)] == 5
        assert found["kafka_consumergroup_current_offset", (GROUP, "in")] == 20
        assert found["kafka_consumergroup_members", (GROUP,)] == 0, "a stream is no member"
        assert found["sparklog_topic_appended_records_total", ("out",)] == 20
