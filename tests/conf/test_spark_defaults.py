"""conf/spark-defaults.conf: Spark knows each setting, each has its reason, and a job runs with them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.markdown_pages import ROOT
from tests.spark_home import spark_home

FILE = ROOT / "conf" / "spark-defaults.conf"
TEXT = FILE.read_text(encoding="utf-8")
SETTING = re.compile(r"^(# )?(spark\.[\w.]+) {2,}(\S+)$", re.MULTILINE)


def test_each_setting_has_its_reason_before_it() -> None:
    found = SETTING.findall(TEXT)
    assert len(found) >= 6
    assert len({name for _, name, _ in found}) == len(found)
    for paragraph in TEXT.strip().split("\n\n"):
        first = paragraph.splitlines()[0]
        assert first.startswith("# "), paragraph
        assert SETTING.match(first) is None, f"{first} has no reason"
    for line in TEXT.splitlines():
        assert not line or line.startswith("# ") or SETTING.fullmatch(line), line


def test_pages_and_tests_that_it_names_are_there() -> None:
    for file in re.findall(r"(?:docs|tests)/[\w/]+\.(?:md|py)", TEXT):
        assert (ROOT / file).is_file(), file
    clusters, stores = ((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in ("clusters", "stores"))
    assert "hdfs:///sparklog/environment.tar.gz#environment" in clusters
    assert "./environment/bin/python" in clusters
    assert "spark.scheduler.listenerbus.logSlowEvent" in stores


@pytest.mark.spark
@pytest.mark.slow
def test_spark_knows_each_setting_and_takes_those_that_are_on(tmp_path: Path) -> None:
    names = [name for _, name, _ in SETTING.findall(TEXT)]
    program = Path(__file__).with_name("known_settings.py")
    variables = {"SPARK_CONF_DIR": str(FILE.parent), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path)}
    ran = subprocess.run(
        [f"{spark_home()}/bin/spark-submit", "--master", "local[1]", str(program), *names, "spark.no.such.setting"],
        env=os.environ | variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout.splitlines()[-1])
    assert seen["known"] == {**dict.fromkeys(names, True), "spark.no.such.setting": False}
    on = {name: value for off, name, value in SETTING.findall(TEXT) if not off}
    assert on.items() <= seen["in force"].items()
