"""The flights of 2013 as a Delta table: the latest flight of each tail number, as Spark SQL finds it in the file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.flights import ABSENT, unpack
from sparklog.client.cluster import Cluster
from sparklog.spark.materialize.columns import Layout
from sparklog.spark.materialize.position import Mode
from tests.spark.materialize.filled_tables import append, materialize, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.campaign]

RECORDS = 100_000  # of a commit


def test_the_latest_flight_of_each_tail_number_is_that_of_spark_sql(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    flights = unpack(tmp_path)
    with flights.path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["tailnum"] != ABSENT]
    cluster.create_topic("t", partitions=3)
    fields = ("flight", "dest", "time_hour")
    append(
        cluster,
        *(
            {"key": row["tailnum"].encode(), "value": json.dumps({name: row[name] for name in fields}).encode()}
            for row in rows
        ),
    )
    layout = Layout(Mode.LATEST, value_schema="flight string, dest string, time_hour string")
    assert materialize(delta_spark, cluster, tmp_path / "d", layout=layout, records=RECORDS).exit_code == 0

    delta_spark.read.csv(str(flights.path), header=True).createOrReplaceTempView("flights")
    latest = delta_spark.sql(
        "SELECT tailnum, max_by(struct(flight, dest, time_hour), at) AS latest FROM "
        f"(SELECT *, monotonically_increasing_id() AS at FROM flights) WHERE tailnum <> '{ABSENT}' GROUP BY tailnum"
    )
    wanted = {row.tailnum: tuple(row.latest) for row in latest.collect()}
    found = {
        bytes(row._key).decode(): (row.flight, row.dest, row.time_hour) for row in rows_of(delta_spark, tmp_path / "d")
    }
    assert len(wanted) > 4_000
    assert found == wanted
