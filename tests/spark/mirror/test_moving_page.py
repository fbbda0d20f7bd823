"""docs/moving.md: its commands, in their order, on a real Kafka."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from pyspark.sql import SparkSession

import sparklog
from sparklog.cli.main import run, run_job
from sparklog.client.groups.offsets import committed
from tests.client.groups.test_kafka_groups import commit
from tests.servers.kafka_broker import KafkaBroker
from tests.spark.mirror.kafka_topics import KafkaTopics
from tests.spark.mirror.test_mirror_job import here, some

PAGE = (Path(__file__).parents[3] / "docs" / "moving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [shlex.split(line) for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]
CLUSTER = "file:///tmp/sparklog-moving"


def test_the_commands_of_the_page_move_a_topic_and_a_group(
    broker: KafkaBroker, kafka: KafkaTopics, tmp_path: Path, kafka_spark: SparkSession
) -> None:
    """The job takes the session that is there, which has Kafka's client."""
    assert kafka_spark.sparkContext is not None
    topic, url = kafka.create(2), f"file://{tmp_path}/cluster"
    kafka.write(topic, [{**each, "partition": at % 2} for at, each in enumerate(some(40))])
    commit(broker, "billing", {(topic, 0): 7, (topic, 1): 9})
    places = {"kafka:9092": broker.bootstrap, "orders": topic, CLUSTER: url}
    for words in COMMANDS:
        given = [places.get(word, word) for word in words]
        if given[0] == "spark-submit":
            job = next(at for at, word in enumerate(given) if word.startswith("jobs/"))
            assert run_job(Path(given[job]).stem, given[job + 1 :]) == 0
        elif given[0] == "export" and given[1].startswith("SPARKLOG_CLUSTER="):
            assert given[1] == f"SPARKLOG_CLUSTER={CLUSTER}"
        elif given[0] == "export":
            (packages,) = {words[words.index("--packages") + 1] for words in COMMANDS if "--packages" in words}
            assert given[1] == f"PYSPARK_SUBMIT_ARGS=--packages {packages} pyspark-shell"
        else:
            assert given[0] == "sparklog"
            assert run(["--cluster", url, *given[1:]]) == 0, given
    with sparklog.connect(url) as cluster:
        assert here(cluster, topic) == kafka.read(topic)
        state = cluster.connection.newest_state()
        assert {place: row.offset for place, row in committed(state, "billing").items()} == {
            (topic, 0): 7,
            (topic, 1): 9,
        }
        assert state.topics[state.topic_ids[topic]].mirror_of is None
