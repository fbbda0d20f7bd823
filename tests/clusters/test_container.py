"""The image of coordinators, agents and jobs: built from an empty root, and run as Kubernetes and ECS run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.clusters.container import CannotBuild, Container, built, missing_here
from tests.faults.running_coordinators import wait_until_ready
from tests.servers.local_server import free_port
from tests.servers.s3_servers import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign, pytest.mark.timeout(2_400)]


@pytest.fixture(scope="module")
def container(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    if (missing := missing_here()) is not None:
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("image")
    try:
        with built(dist, folder) as container:
            yield container
    except CannotBuild as error:
        pytest.skip(f"this machine does not build images: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ran(container: Container, scratch: Path, *arguments: str, **variables: str) -> str:
    """What the image prints. Its exit code must be 0."""
    done = subprocess.run(
        container.command(arguments, variables, scratch),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def in_it(container: Container, program: str) -> Container:
    """The same with another entry point."""
    return Container(container.root, {**container.config, "Entrypoint": [program]})


def test_it_runs_sparklog_as_a_user_without_rights_on_a_root_that_nobody_writes(
    container: Container, tmp_path: Path
) -> None:
    assert ran(container, tmp_path, "--version") == f"sparklog {sparklog.__version__}\n"
    assert "--store" in ran(container, tmp_path, "agent", "--help")
    assert container.config["User"] == "10001:10001"
    look = "id -u; id -g; touch /x /opt/sparklog/x 2>&1; touch /tmp/x && echo writes"
    rights = "grep -E '^(CapEff|NoNewPrivs)' /proc/self/status"
    seen = ran(in_it(container, "sh"), tmp_path, "-c", f"{look}; {rights}").splitlines()
    assert seen[:2] == ["10001", "10001"]
    assert [line.rpartition(": ")[2] for line in seen[2:4]] == ["Read-only file system"] * 2
    assert seen[4:] == ["writes", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"]


def test_it_holds_no_secret_and_nothing_of_the_build(container: Container, tmp_path: Path) -> None:
    left = (
        "ls -A /var/lib/apt/lists; find / -xdev -name 'sparklog-*.whl' -o -xdev -name pip.conf -size +0 -o -name .netrc"
    )
    assert ran(in_it(container, "sh"), tmp_path, "-c", f"({left}) 2> /dev/null || true").split() == []
    assert [file for file in container.root.glob("tmp/**/*") if not file.is_dir()] == []


def test_a_coordinator_of_it_leads_a_cluster_on_s3_and_stops_in_time(
    container: Container, s3proxy: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3proxy.variables.items():
        monkeypatch.setenv(name, value)
    url, port = f"s3://{s3proxy.new_bucket()}/log", free_port()
    init_cluster(url)
    variables = {**s3proxy.variables, "SPARKLOG_CLUSTER": url, "SPARKLOG_LISTEN": f"127.0.0.1:{port}"}
    variables |= {"SPARKLOG_JOB_COMMAND": "none"}
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(container.command(["coordinator"], variables, tmp_path), env=os.environ) as process:
        try:
            wait_until_ready(address)
            with sparklog.connect(address) as cluster:
                cluster.create_topic("orders")
                with cluster.producer() as producer:
                    assert producer.send("orders", value=b"tea").result().offset == 0
            with sparklog.connect(url) as cluster:
                state = cluster.connection.newest_state()
                assert state.coordinator.address == address
        finally:
            process.terminate()
            process.wait(30)  # what Kubernetes and ECS give it
    assert process.returncode == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}/healthz", timeout=5)


def test_jobs_of_it_run_with_spark(container: Container, s3proxy: S3Server, tmp_path: Path) -> None:
    """Java, Spark and its Python workers, all as a user that has no home to write to."""
    url = f"s3://{s3proxy.new_bucket()}/log"
    variables: Mapping[str, str] = {**s3proxy.variables, "SPARKLOG_CLUSTER": url, "SPARK_LOCAL_IP": "127.0.0.1"}

    def run(*arguments: str) -> str:
        return ran(container, tmp_path, *arguments, **variables)

    (tmp_path / "prices").write_text("tea:4\ncup:9\ntea:5\n")
    run("cluster", "init")
    run("topic", "create", "prices", "--topic-config", "cleanup.policy=compact")
    feed = "sparklog produce prices --key-separator : < /tmp/prices"
    ran(in_it(container, "sh"), tmp_path, "-c", feed, **variables)
    assert "1 object, 3 records" in run("job", "roll", "--all")
    assert "1 object, 2 records" in run("job", "compaction", "--all")
    assert run("consume", "prices", "--offset", "start", "--num", "2").split() == ["9", "5"]
    assert run("job", "verify")
