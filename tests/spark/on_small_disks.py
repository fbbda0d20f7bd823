"""A Spark of its own that meets a disk which fills up, then one that is read-only; says what came of each as JSON.

Run in a mount name space of its own: `unshare -m python -m tests.spark.on_small_disks <folder>`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster

ROWS = 20_000  # of 200 bytes that do not compress: twice the disk


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except PySparkException as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "none", str(disk))
    url = str(disk / "cluster")
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=2)
    builder = SparkSession.builder.master("local[2]").appName("small disks")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    def write(rows: int) -> str:
        wide = spark.range(rows).selectExpr("concat(sha2(concat('a', id), 512), sha2(concat('b', id), 512)) as value")
        return error_of(wide.write.format("sparklog").mode("append").option("cluster", url).option("topic", "t").save)

    def read() -> DataFrame:
        return spark.read.format("sparklog").option("cluster", url).option("subscribe", "t").load()

    said = {"small": write(10), "full": write(ROWS), "rows after full": read().count()}
    said["uploads that were left"] = sum(each.is_file() for each in (disk / "cluster" / ".tmp").rglob("*"))
    mount("-o", "remount,size=16m", str(disk))
    said |= {"larger": write(ROWS), "rows after larger": read().count()}
    mount("-o", "remount,ro", str(disk))
    said |= {"read only": write(10), "rows after read only": read().count()}
    print(json.dumps(said))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
