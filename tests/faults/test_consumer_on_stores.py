"""A consumer reads from S3 and HDFS, whose stores answer slowly: ahead, in parts, some columns, in a group."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.errors import Wakeup
from tests.faults.crash_places import Place

PARTITIONS, RECORDS = 6, 2_000


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.parametrize("place", ["disk", "s3", "hdfs"], indirect=True)
def test_a_group_reads_everything_once_in_calls_of_every_kind(place: Place) -> None:
    url = place.new_url()
    init_cluster(url)
    values = [str(number) for number in range(PARTITIONS * RECORDS)]
    partitions = pa.array([number % PARTITIONS for number in range(PARTITIONS * RECORDS)], pa.int32())
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS)
        seen: list[str] = []
        for part in range(2):  # from the start, and on from what is committed
            cluster.append("t", pa.table({"value": [f"{part}-{value}" for value in values], "partition": partitions}))
            with cluster.consumer("t", group="g", auto_offset_reset="earliest", consumer_timeout_ms=1) as consumer:
                for records in consumer.poll(max_records=700).values():
                    seen += [(record.value or b"").decode() for record in records]
                table = consumer.poll_table(max_records=5_000, columns=["value"])
                seen += [value.decode() for value in table["value"].to_pylist()]
                seen += [(record.value or b"").decode() for record in consumer]
                assert consumer.lag() == 0
        assert sorted(seen) == sorted(f"{part}-{value}" for part in range(2) for value in values)
        assert cluster.describe_group("g").lag == 0


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.parametrize("place", ["s3", "hdfs"], indirect=True)
def test_it_waits_for_records_and_is_woken(place: Place) -> None:
    url = place.new_url()
    init_cluster(url)
    with sparklog.connect(url) as cluster, sparklog.connect(url) as writer:
        cluster.create_topic("t")
        with cluster.consumer("t", auto_offset_reset="earliest") as consumer:
            appending = threading.Thread(target=writer.append, args=("t", pa.table({"value": ["x"]})))
            appending.start()
            assert [record.value for records in consumer.poll(60_000).values() for record in records] == [b"x"]
            appending.join()
            waking = threading.Thread(target=consumer.wakeup)
            waking.start()
            with pytest.raises(Wakeup):
                consumer.poll(3_600_000)
            waking.join()
