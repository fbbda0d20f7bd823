"""docs/clusters.md as scripts: its blocks with the addresses of a test."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pyspark

from sparklog.client.cluster import connect
from tests.clusters.artefacts import ROOT
from tests.docs.clean_shell import in_clean_shell

ROWS = 20_000
SITE = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")


# Records of the topic "passed" go, as if they were old.
EXPIRE = '$SUBMIT jobs/retention.py --cluster "$CLUSTER" --topic passed --now 2100-01-01T00:00Z\n'


def blocks(section: str) -> list[str]:
    """The shell blocks of a section of the page."""
    text = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return re.findall(r"```bash\n(.*?)```", found, re.DOTALL)


def round_trip(target: str, place: str = "/environment/lib/") -> str:
    """Lines that run round_trip.py, from the topic of the page to a new one."""
    return (
        f'environment/bin/python -m sparklog topic create {target} --partitions 4 --cluster "$CLUSTER"\n'
        f'$SUBMIT {Path(__file__).parent}/round_trip.py "$CLUSTER" orders {target} {ROWS} "$PWD" {place}\n'
    )


def link_packages(site: Path) -> None:
    """All that is installed here, but sparklog, pip, and the path files, which lead to the source tree."""
    site.mkdir(parents=True, exist_ok=True)
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith(("sparklog", "_sparklog", "pip", "__pycache__")) and package.suffix != ".pth":
            (site / package.name).symlink_to(package)


class Submitting:
    """The machine that submits: a shell with Java, Spark's folder, and a Python without packages."""

    def __init__(self, folder: Path, dist: Path, cluster: str) -> None:
        """`cluster`: the address of the log."""
        self.folder = folder
        self.cluster = cluster
        self._dist = dist
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "bare")], check=True)
        (folder / "orders.csv").write_text("\n".join(["id", *map(str, range(ROWS))]) + "\n")
        (folder / "conf").mkdir()
        (folder / "conf" / "spark-defaults.conf").write_text(
            "spark.driver.host 127.0.0.1\n"
            "spark.driver.memory 512m\n"
            "spark.executor.memory 512m\n"
            "spark.sql.shuffle.partitions 2\n"
            "spark.ui.enabled false\n"
            f"spark.yarn.jars local:{Path(pyspark.__file__).parent}/jars/*\n"  # else each submission sends 400 MB
        )

    def run_all(self, start: str, instead: Mapping[str, str]) -> None:
        """Fill a topic, read it, pass it on by a stream whose executor is killed, and run the jobs.

        `start`: the block that sets $SUBMIT.
        """
        (begin,), (fill, jobs) = blocks("On the machine that submits"), blocks("The jobs")
        printed = self.run(begin, start, fill, round_trip("passed"), jobs, EXPIRE, instead=instead)
        assert "all is well" in printed, printed[-5000:]
        self.check("orders", expired="passed")

    def check(self, *topics: str, expired: str | None = None) -> None:
        """Each topic has each row once, and the expired one has none: a reader without Spark says so."""
        with connect(self.cluster) as cluster:
            for topic in topics:
                parts = [cluster.read(topic, partition=part)["value"].to_pylist() for part in range(4)]
                assert sorted(int(value) for part in parts for value in part) == list(range(ROWS))
            if expired is not None:
                assert [cluster.read(expired, partition=part).num_rows for part in range(4)] == [0] * 4

    def run(self, *scripts: str, instead: Mapping[str, str]) -> str:
        """What the shell prints. What it left in the background is ended."""
        variables = {
            "SPARK_CONF_DIR": f"{self.folder}/conf",
            "CLUSTER": self.cluster,
            "INPUT": (self.folder / "orders.csv").as_uri(),
        }
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        exports += f'export PATH="{self.folder}/bare/bin:$PATH"\n'
        text = "\n".join(scripts)
        addresses = {
            "/opt/sparklog": str(self._dist),
            "/opt/spark\n": f"{Path(pyspark.__file__).parent}\n",
            "/tmp/sparklog-clusters": str(self.folder),
            **instead,
        }
        for old, new in addresses.items():
            text = text.replace(old, new)
        return in_clean_shell(self.folder, exports + "trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT\n" + text)
