"""`sparklog doctor`, and `sparklog cluster doctor`, which needs a cluster."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from sparklog.cli.cluster import doctor
from sparklog.cli.main import run
from sparklog.core.errors import InvalidInput, StoreAccessDenied, StoreFull, StoreUnavailable
from sparklog.core.types import StoreId
from sparklog.host.java import java_problem
from sparklog.log.cluster_stores import Stores
from sparklog.spark.installations import Installation
from sparklog.storage import open_store, probe
from sparklog.storage.local.store import LocalStore
from sparklog.storage.object_store import ObjectStore
from tests.cli.conftest import Cli


def test_doctor_probes_each_store_once_and_removes_what_it_wrote(orders: Cli, tmp_path: Path) -> None:
    before = sorted(each for each in tmp_path.rglob("*") if each.is_file())
    said = orders("cluster", "doctor", "--no-spark", "--format", "json")
    rows = json.loads(said.out)
    assert said.code == 0
    assert {each["what"] for each in rows} == {"metadata and local"}
    assert len(rows) == 7
    assert {each["found"] for each in rows} == {"ok"}
    assert sorted(each for each in tmp_path.rglob("*") if each.is_file()) == before


def test_doctor_names_a_store_that_fails_and_exits_5(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "THOROUGH", probe.AT_INIT)  # a few races show as much as many
    monkeypatch.setattr(LocalStore, "delete", lambda store, key: None)
    said = orders("cluster", "doctor", "--no-spark")
    assert said.code == 5
    assert "a deleted object is gone" in said.out
    assert "it is still there after it was deleted" in said.out


def test_doctor_probes_the_others_if_a_store_can_not_be_opened(
    orders: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert orders("store", "add", f"b={tmp_path / 'b'}").code == 0
    get = Stores.get

    def closed(stores: Stores, store: StoreId) -> ObjectStore:
        if store == "b":
            raise InvalidInput("b needs something that is not installed")
        return get(stores, store)

    monkeypatch.setattr(Stores, "get", closed)
    monkeypatch.setattr(probe, "THOROUGH", probe.AT_INIT)
    said = orders("cluster", "doctor", "--no-spark", "--format", "json")
    found = {each["found"] for each in json.loads(said.out) if each["what"] == "b"}
    assert (said.code, found) == (5, {"INVALID_REQUEST: b needs something that is not installed"})
    assert {each["found"] for each in json.loads(said.out) if each["what"] != "b"} == {"ok"}


def test_without_a_cluster_the_machine_alone_is_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARKLOG_CLUSTER", raising=False)
    monkeypatch.delenv("SPARKLOG_CONFIG", raising=False)
    monkeypatch.setattr(doctor, "_tasks", lambda: iter(()))
    assert run(["doctor", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["what"], row["check"], row["found"], row["mend"]) for row in rows] == [
        ("this machine", "Java 17 or newer", "ok", None),
        ("this machine", "Spark 3.5 or newer", "ok", None),
    ]
    assert run(["doctor", "--no-spark"]) == 0
    assert "nothing was checked: give --cluster URL" in capsys.readouterr().out
    assert run(["cluster", "doctor"]) == 2
    assert "no cluster is given" in capsys.readouterr().err


def test_a_missing_java_is_named_with_the_line_that_mends_it(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_cluster", lambda url: iter(()))
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    said = orders("doctor", "--format", "json")
    assert said.code == 5
    (java,) = [row for row in json.loads(said.out) if row["found"] != "ok"]
    assert java["found"] == "JAVA_HOME=/nowhere has no bin/java"
    assert java["mend"] == "apt-get install openjdk-17-jre-headless, or set JAVA_HOME to a Java that you have"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'openjdk version \"21.0.2\" 2024-01-16' >&2", None),
        ("echo 'java version \"1.8.0_402\"' >&2", "is Java 8"),
        ("echo 'openjdk version \"11\"' >&2", "is Java 11"),
        ("exit 1", "does not say its version"),
    ],
)
def test_the_version_of_java_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str | None
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_problem() == (None if problem is None else f"JAVA_HOME={tmp_path} {problem}")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java_problem() == "none was found: JAVA_HOME is not set, and there is no java in PATH"


@pytest.mark.parametrize(
    ("scheme", "module", "extra"),
    [("s3", "s3fs", "s3"), ("hdfs", "hdfs_native", "hdfs"), ("abfs", "azure.identity", "azure")],
)
def test_an_extra_that_the_address_needs_is_named_with_its_pip_line(
    nowhere: Cli, monkeypatch: pytest.MonkeyPatch, scheme: str, module: str, extra: str
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else found(name))
    monkeypatch.setattr(open_store, "absolute_url", lambda url: url)
    said = nowhere("doctor", "--no-spark", "--format", "json", "--cluster", f"{scheme}://place/log")
    assert said.code == 5
    (row,) = json.loads(said.out)
    assert row == {
        "what": "metadata",
        "check": f"the packages of sparklog's extra '{extra}' are installed",
        "found": f"no {module}",
        "mend": f"pip install 'sparklog[{extra}]'",
    }


def test_a_store_that_does_not_answer_gets_a_line_that_fits(orders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, words in (
        (StoreAccessDenied("no"), "right to read and write"),
        (StoreFull("no"), "give it more room"),
        (StoreUnavailable("no"), "reachable from here"),
    ):
        monkeypatch.setattr(probe, "probe", lambda *given, error=error, **named: (_ for _ in ()).throw(error))
        said = orders("doctor", "--no-spark", "--format", "json")
        (row,) = [row for row in json.loads(said.out) if row["found"] != "ok"]
        assert (said.code, row["found"]) == (5, str(error))
        assert words in row["mend"]


def test_a_cluster_that_is_not_there_is_an_error_of_its_own(nowhere: Cli) -> None:
    assert nowhere("doctor", "--no-spark").code == 3


def test_tasks_that_differ_get_the_packages_or_the_python_of_the_driver() -> None:
    driver = Installation("driver", "3.11.7", {"sparklog": "0.1.0", "pyarrow": "22.0.0", "s3fs": ""})
    older = Installation("worker", "3.11.2", {"sparklog": "0.1.0", "pyarrow": "21.0.0", "s3fs": ""})
    assert doctor.mend_tasks(driver, older) == "there: pip install pyarrow==22.0.0"
    other = Installation("worker", "3.12.1", {})
    assert "set PYSPARK_PYTHON (or spark.pyspark.python) to a Python 3.11" in doctor.mend_tasks(driver, other)


def test_what_to_set_for_functions_in_python_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 0: sparklog's own jobs run."""
    monkeypatch.setattr("sparklog.spark.installations.installations", lambda session: iter(()))
    monkeypatch.setattr("sparklog.spark.jar.function_advice", lambda setting: "set x=false")
    (row,) = doctor._tasks()
    assert (row.what, row.problem, row.mend) == ("Spark", doctor.WARNING, "set x=false")
    doctor.show(iter((row,)))
    monkeypatch.setattr("sparklog.spark.jar.function_advice", lambda setting: None)
    assert list(doctor._tasks()) == []
