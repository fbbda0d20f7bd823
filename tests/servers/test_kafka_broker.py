"""A broker's process ends with its block, whatever ends the block. `java` is a script here: no JAR is needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers import kafka_broker
from tests.servers.kafka_broker import KafkaBroker

Script = Callable[[str], None]


@pytest.fixture
def java_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Say what the process of the broker is to do, once the folder is formatted. Its id lies in `pid`."""

    def write(what: str) -> None:
        script = tmp_path / "java"
        script.write_text(
            f'#!/bin/sh\ncase "$*" in *StorageTool*) exit 0;; esac\necho $$ > {tmp_path}/pid\nexec {what}\n'
        )
        script.chmod(0o755)
        monkeypatch.setattr(kafka_broker, "java", lambda: str(script))

    monkeypatch.setattr(kafka_broker, "kafka_jars", lambda: [Path("kafka.jar")])
    return write


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Once the process has begun the broker counts as listening."""
    monkeypatch.setattr(KafkaBroker, "_is_listening", lambda _: (tmp_path / "pid").exists())


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.usefixtures("ready")
def test_ctrl_c_in_its_block_ends_the_broker(tmp_path: Path, java_is: Script) -> None:
    java_is("sleep 600")
    broker = KafkaBroker(tmp_path)
    pids = []

    def interrupted() -> None:
        with broker:
            pids.append(broker.pid)
            assert is_running(broker.pid)
            assert os.getsid(broker.pid) != os.getsid(0)  # the terminal's Ctrl-C does not reach it: we end it
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not is_running(pids[0])


def test_ctrl_c_before_it_is_ready_ends_the_broker(
    tmp_path: Path, java_is: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_is("sleep 600")
    started = []

    def interrupted(broker: KafkaBroker) -> None:
        started.append(broker.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(KafkaBroker, "_is_listening", interrupted)
    with pytest.raises(KeyboardInterrupt), KafkaBroker(tmp_path):
        pass
    assert not is_running(started[0])


@pytest.mark.usefixtures("ready")
def test_second_ctrl_c_while_the_broker_stops_ends_it_all_the_same(
    tmp_path: Path, java_is: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_is("sleep 600")
    broker = KafkaBroker(tmp_path)
    broker.start()
    process = broker._process
    assert process is not None
    monkeypatch.setattr(process, "terminate", lambda: None)
    waited = process.wait

    def interrupted(timeout: float | None = None) -> int:
        if timeout is not None:
            raise KeyboardInterrupt
        return waited()

    monkeypatch.setattr(process, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        broker.stop()
    assert not is_running(process.pid)
    broker.stop()


def test_broker_that_ends_at_once_is_an_error_with_what_it_said(tmp_path: Path, java_is: Script) -> None:
    java_is("echo the port is taken")
    with pytest.raises(RuntimeError, match="ended with 0: the port is taken"), KafkaBroker(tmp_path):
        pass


@pytest.mark.usefixtures("ready")
def test_clients_and_the_controller_are_heard_on_loopback_only(tmp_path: Path, java_is: Script) -> None:
    java_is("sleep 600")
    with KafkaBroker(tmp_path) as broker:
        settings = dict(line.split("=", 1) for line in (tmp_path / "server.properties").read_text().splitlines())
        addresses = [each.partition("://")[2] for each in settings["listeners"].split(",")]
        assert [each.partition(":")[0] for each in addresses] == ["127.0.0.1", "127.0.0.1"]
        assert broker.bootstrap == addresses[0]
