"""conf/clusters/*.toml: the commands of each file make its cluster on real stores, and records go through it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog.cli.main import run
from sparklog.storage.config_file import CONFIG_VARIABLE, read_config_file
from tests.docs.markdown_pages import ROOT
from tests.docs.test_commands import BLOCK, check, commands
from tests.servers.hadoop import Hadoop
from tests.servers.s3_servers import S3Server

FILES = sorted((ROOT / "conf" / "clusters").glob("*.toml"))
COMMAND = re.compile(r"^#   (sparklog .*)$", re.MULTILINE)
ZONES = {
    "one-machine": {"a": "disk1", "b": "disk2", "c": "disk3"},
    "s3": {"main": ""},
    "s3-and-hdfs": {"cloud": "cloud", "here": "here"},
    "two-regions": {"a": "eu-central-1", "b": "eu-west-1"},
}


def test_each_file_is_tried_below() -> None:
    assert {file.stem for file in FILES} == ZONES.keys()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_file_is_read_and_all_that_it_says_is_taken(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = file.read_text(encoding="utf-8")
    config = read_config_file(str(file), "--config")
    assert f"export SPARKLOG_CONFIG=conf/clusters/{file.name}" in text
    told = {*ZONES[file.stem], "metadata"}
    assert {name.partition(".")[0] for name in config.storage.plain} <= told
    assert not config.storage.secret
    for line in re.findall(r"sparklog (?:agent|job|cluster cost)[^:`,.\n]*", text):
        for words in commands(line):
            check(words, True, capsys)
    for wanted in re.findall(r"docs/\w+\.md", text):
        assert (ROOT / wanted).is_file()
    if config.job_command not in (None, "local"):
        check(shlex.split(config.job_command.format(job="roll", cluster="/c", report="r.json")), True, capsys)


def through_it(file: Path, addresses: Mapping[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make the cluster with its stores at these addresses, and send records through it. Return its address."""
    text = file.read_text(encoding="utf-8")
    for old, new in addresses.items():
        assert old in text
        text = text.replace(old, new)
    (folder / file.name).write_text(text, encoding="utf-8")
    monkeypatch.setenv(CONFIG_VARIABLE, str(folder / file.name))
    for line in COMMAND.findall(text):
        assert run(shlex.split(line)[1:]) == 0, line
    url = read_config_file(str(folder / file.name), CONFIG_VARIABLE).cluster
    assert url is not None
    with sparklog.connect(url) as cluster:
        with cluster.producer() as producer:
            sent = [producer.send("orders", value=f"{number}".encode(), partition=number % 3) for number in range(9)]
            assert [future.result().offset for future in sent] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        read = [cluster.read("orders", partition=at)["value"].to_pylist() for at in range(3)]
        assert read == [[b"0", b"3", b"6"], [b"1", b"4", b"7"], [b"2", b"5", b"8"]]
        assert {str(store.store): store.zone for store in cluster.stores()} == ZONES[file.stem]
        replicas = {len(partition.replicas) for partition in cluster.describe("orders").partitions}
        assert replicas == {len(ZONES[file.stem])}
    return url


def conf(name: str) -> Path:
    return ROOT / "conf" / "clusters" / f"{name}.toml"


def test_three_disks_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = through_it(conf("one-machine"), {f"/disk{n}/": f"{tmp_path}/disk{n}/" for n in "123"}, tmp_path, monkeypatch)
    assert url == f"file://{tmp_path}/disk1/log"
    assert list((tmp_path / "disk2").rglob("copies/*")), "a copy of the metadata is on another disk"


def test_s3_in_one_region(s3proxy: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(s3proxy, monkeypatch)
    through_it(conf("s3"), {"s3://my-log/": f"s3://{s3proxy.new_bucket()}/"}, tmp_path, monkeypatch)


def test_s3_and_hdfs(s3proxy: S3Server, hadoop: Hadoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(s3proxy, monkeypatch)
    addresses = {
        "s3://my-log/": f"s3://{s3proxy.new_bucket()}/",
        "hdfs://namenode:8020/": f"{hadoop.url}/{tmp_path.name}/",
    }
    through_it(conf("s3-and-hdfs"), addresses, tmp_path, monkeypatch)


def test_two_regions_of_which_one_is_lost(s3proxy: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of docs/deploy.md for the loss of a region: the other store gives everything back."""
    use(s3proxy, monkeypatch)
    first, second = s3proxy.new_bucket(), s3proxy.new_bucket()
    addresses = {"s3://my-log-central/": f"s3://{first}/", "s3://my-log-west/": f"s3://{second}/"}
    through_it(conf("two-regions"), addresses, tmp_path, monkeypatch)
    monkeypatch.setenv("SPARKLOG_CLUSTER", f"s3://{second}/log")
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    section = page[page.index("## A region is lost") : page.index("## Tear down")]
    section = section.replace("$SPARKLOG_CLUSTER", f"s3://{second}/log")
    section = section.replace("s3://$NAME-c-eu-west-1/", f"s3://{s3proxy.new_bucket()}/")
    found = [words for _, block in BLOCK.findall(section) for words in commands(block) if words[0] == "sparklog"]
    assert [" ".join(words[1:3]) for words in found] == ["cluster restore"] * 2 + ["store add", "replica move"]
    for words in (*found, ["sparklog", "agent", "--store", "c", "--once"]):
        assert run(words[1:]) == 0, words
    with sparklog.connect(f"s3://{second}/log") as cluster:
        assert cluster.read("orders", partition=0)["value"].to_pylist() == [b"0", b"3", b"6"]
        assert [str(store.store) for store in cluster.stores() if not store.fenced] == ["b", "c"]
        assert cluster.append("orders", pa.table({"value": ["9"]})).ranges
        assert {tuple(sorted(of.isr)) for of in cluster.describe("orders").partitions} == {("b", "c")}


def use(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and the address of the server, as the platform has them. The regions are those of the file."""
    for name, value in server.variables.items():
        if name != "AWS_REGION":
            monkeypatch.setenv(name, value)
