"""No secret of an S3 store is in anything that Spark, Python or the store keeps or shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from tests.secret_search import leaks, new_secret
from tests.servers import s3_servers
from tests.servers.local_server import free_port
from tests.servers.made_once import CannotFetch
from tests.servers.s3_servers import ACCESS_KEY_ID, S3Server
from tests.spark.conftest import PROJECT
from tests.spark.secret_job import Scenario
from tests.spark_classes import NO_FOLDER, short_lived_spark
from tests.spark_home import spark_home
from tests.storage.scripted_s3 import HANG, Reply, Request, scripted_s3

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

_TIMEOUT_S = 500
_LOG4J = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = debug
logger.api.name = org.apache.spark.api.python
logger.api.level = debug
logger.source.name = org.apache.spark.sql.execution.datasources.v2
logger.source.level = debug
logger.sources.name = org.apache.spark.sql.execution.python
logger.sources.level = debug
"""
_OF_BOTOCORE = "python/botocore-"
_SITE = "from tests.spark.loud_logging import begin\nbegin({folder!r})\n"


@dataclass(frozen=True)
class Ran:
    """A program that ended: what it left, by where, and the secrets that it knew."""

    secrets: dict[str, str]
    said: dict[str, str]
    logs: dict[str, bytes]
    objects: dict[str, bytes]


def _echo(requests: list[Request]) -> Reply:
    """A server that is none of S3, and shows people what they sent."""
    return Reply(200, repr(requests[-1].headers).encode(), {"Content-Type": "text/plain"})


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """The program of `secret_job`, run once."""
    work = tmp_path_factory.mktemp("secrets")
    secrets = {
        name: new_secret(name)
        for name in ("right", "wrong", "session", "wrongsession", "password", "token", "statement")
    }
    try:
        s3_servers.s3proxy_jar()
    except CannotFetch as error:
        pytest.skip(str(error))
    with (
        s3_servers.s3proxy(secrets["right"], any_token=True) as server,
        scripted_s3(_echo) as echo,
        scripted_s3(HANG) as hang,
    ):
        bucket = server.new_bucket()
        keys = {"access_key_id": ACCESS_KEY_ID, "secret_access_key": secrets["right"]}
        scenario = Scenario(
            work=str(work / "left"),
            url=f"s3://{bucket}/cluster",
            config_file=str(work / "sparklog.toml"),
            right={**keys, "session_token": secrets["session"]},
            wrong={**keys, "secret_access_key": secrets["wrong"], "session_token": secrets["wrongsession"]},
            never_used={"storage.other.password": secrets["password"], "cluster.token": secrets["token"]},
            in_statement=secrets["statement"],
            bad_places={
                "no bucket": ("s3://no-such-bucket-here/c", server.endpoint_url, ("read",)),
                "no server": (f"s3://{bucket}/c", f"http://127.0.0.1:{free_port()}", ("write",)),
                "an echo": (f"s3://{bucket}/c", echo.endpoint_url, ("read", "write")),
                "a hang": (f"s3://{bucket}/c", hang.endpoint_url, ("read",)),
            },
        )
        Path(scenario.config_file).write_text("")
        Path(scenario.work, "events").mkdir(parents=True)
        environment = _environment(work, scenario, server, secrets)
        logs = _run(scenario, environment, work)
        said = json.loads(Path(scenario.work, "said.json").read_text())
        yield Ran(secrets, said, logs, dict(_objects(server, bucket)))


def _environment(work: Path, scenario: Scenario, server: S3Server, secrets: dict[str, str]) -> dict[str, str]:
    """Of a program that logs all it can, with a SPARK_HOME in which the logs of executors are its own."""
    home, site, python = (Path(scenario.work, name) for name in ("home", "site", "python"))
    for each in (home, site, python):
        each.mkdir()
    for part in spark_home().iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    log4j = Path(scenario.work, "log4j2.properties")
    log4j.write_text(_LOG4J)
    (site / "sitecustomize.py").write_text(_SITE.format(folder=str(python)))
    return {
        **os.environ,
        **server.variables,
        "AWS_SESSION_TOKEN": secrets["session"],
        "PYTHONPATH": f"{site}:{PROJECT}",
        "SPARKLOG_CONFIG": scenario.config_file,
        "SPARKLOG_DEBUG": "1",
        "SPARK_CONF_DIR": str(NO_FOLDER),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": " ".join([f"-Dlog4j2.configurationFile={log4j}", *short_lived_spark()]),
    }


def _run(scenario: Scenario, environment: dict[str, str], work: Path) -> dict[str, bytes]:
    """All files that the program left, and what it printed."""
    left = Path(scenario.work)
    with (left / "stdout").open("wb") as out, (left / "stderr").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.secret_job"],
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            process.communicate(msgspec.json.encode(scenario), timeout=_TIMEOUT_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, (left / "stderr").read_text()[-4000:]
    files = {str(each.relative_to(left)): each for each in left.rglob("*") if each.is_file()}
    ours = (name for name in files if not name.startswith("home/") or name.startswith("home/work/"))
    return {name: body for name in ours if (body := files[name].read_bytes())}


def _objects(server: S3Server, bucket: str) -> Iterator[tuple[str, bytes]]:
    """Each object: key, metadata and body as it is, and again as Arrow shows it where it is Arrow's."""
    import botocore.session

    keys = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": server.secret_access_key}
    session = botocore.session.Session(profile=None)
    client = session.create_client("s3", endpoint_url=server.endpoint_url, region_name="us-east-1", **keys)
    try:
        for each in client.list_objects_v2(Bucket=bucket)["Contents"]:
            answer = client.get_object(Bucket=bucket, Key=each["Key"])
            body = answer["Body"].read()
            yield each["Key"], each["Key"].encode() + str(answer["Metadata"]).encode() + body
            if body.startswith(b"ARROW1"):
                table = pa.ipc.open_file(body).read_all()
                yield f"{each['Key']} in clear", f"{table.schema.metadata} {table.to_pydict()}".encode()
    finally:
        client.close()


def test_nothing_a_program_is_shown_holds_a_secret(ran: Ran) -> None:
    """Plans, explanations, names and contents of objects, what travels to tasks, and each error with its chain."""
    assert leaks(ran.said.items(), ran.secrets) == set()


def test_no_log_event_log_or_output_holds_a_secret(ran: Ran) -> None:
    texts = {where: body for where, body in ran.logs.items() if body and not where.startswith(_OF_BOTOCORE)}
    events, executor, python = (
        b"".join(body for where, body in texts.items() if where.startswith(folder))
        for folder in ("events/", "home/work/", "python/")
    )
    for written in (b"SQLExecutionStart", b"storage.metadata.secret_access_key=*********(redacted)", b"cluster.token"):
        assert written in events
    for written, log in (
        (b"=== Applying Rule", texts["stderr"]),
        (b"Process of event SparkListenerJobStart", texts["stderr"]),
        (b"sparklog ", python),
        (b"s3fs ", python),
        (b"PythonRunner", executor),
        (b"access keys are not accepted", executor),
    ):
        assert written in log
    assert leaks(texts.items(), ran.secrets) == set()


def test_botocore_s_own_debug_log_shows_session_tokens_and_no_other_secret(ran: Ran) -> None:
    """It shows the headers of each request, of which a session token is one."""
    logs = b"".join(body for where, body in ran.logs.items() if where.startswith(_OF_BOTOCORE))
    assert leaks([("botocore", logs)], ran.secrets) == {("botocore", "session"), ("botocore", "wrongsession")}


def test_no_object_of_the_store_holds_a_secret_or_an_access_key_id(ran: Ran) -> None:
    kinds = {key.removeprefix("cluster/").split("/")[0] for key in ran.objects}
    assert kinds == {"INCARNATION", "append", "meta"}
    assert any(key.startswith("cluster/meta/snapshot/") for key in ran.objects)
    assert sum(key.endswith(" in clear") for key in ran.objects) >= 8
    assert leaks(ran.objects.items(), {**ran.secrets, "id": ACCESS_KEY_ID}) == set()
