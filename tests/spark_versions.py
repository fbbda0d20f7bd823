"""Which test proves which feature on which Spark: the marks `sparks` of the tests, as docs/spark_versions.md.

python -m tests.spark_versions    writes the page
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from tests.sparks import FEATURES, VERSIONS, is_about, numbers

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "spark_versions.md"
_SPARK_3_5 = """\
## Spark 3.5

Spark 3.5 has no data sources in Python, so sparklog's JAR serves alone: reads, writes, streams and
[a catalog of topics](columns.md#a-catalog-of-topics). The same JAR is for Scala 2.12 and 2.13.

- The driver and the executors need Java 17. With an older one, no data source at all is found any more:
  `UnsupportedClassVersionError: io/sparklog/SparklogSource … class file version 61.0`.
- Start Spark with `--jars` and the file that `sparklog jar` names, or call `sparklog.spark.register(spark)`.
- The planner needs Python 3.11 or newer with sparklog and, for writes, pyspark (`pip install 'sparklog[spark]'`; it may
  be newer than the Spark that runs). If the Python of Spark's workers is another, name it by `spark.sparklog.python` or
  `SPARKLOG_PYTHON`: driver and executors need it at this path. So a job may be in Scala or in an older Python. The
  functions of `sparklog.spark` and sparklog's own jobs run in the job's Python, which then has to be 3.11 or newer.
- Rows for a store that Java can't write to go to the planner of their executor, and records of a store that Java can't
  read come from there.
- Refused by name: `metadata` (use the command line, or `Cluster.describe`), `reader=rows`, columns of types that
  [Java does not take](columns.md#what-java-writes-itself) (cast them), and the job materialize. Spark itself refuses
  tables of its own catalog (`… is not a valid Spark SQL Data Source`): use the catalog of topics.
- PySpark 3.5 shows an error of a task as `Py4JJavaError`, with the same text.
"""


@dataclass(frozen=True)
class Proof:
    """A test that proves a feature on the versions that `is_about` says."""

    feature: str
    node: str
    since: str | None = None
    before: str | None = None
    also: str | None = None
    refused: bool = False


def proofs() -> list[Proof]:
    """What the marks of all tests say, in the order of files and lines. Raises ValueError for an unknown feature."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.parse(source).body if "mark.sparks(" in source else ():
            for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.sparks":
                    limits = {str(word.arg): ast.literal_eval(word.value) for word in mark.keywords}
                    proof = Proof(ast.literal_eval(mark.args[0]), f"{path.relative_to(ROOT)}::{node.name}", **limits)
                    if proof.feature not in FEATURES:
                        raise ValueError(f"{proof.node}: wanted one of {', '.join(FEATURES)}, found {proof.feature!r}")
                    found.append(proof)
    return found


def lock_of(spark: str) -> Path:
    """The lock file of the tests on this Spark."""
    return ROOT / "requirements" / ("dev.lock" if spark == "4.2" else f"spark-{spark}.lock")


def page() -> str:
    """The whole page. Raises ValueError if a cell would be empty."""
    found = proofs()
    order = {name: place for place, name in enumerate(FEATURES)}
    nodes = list(dict.fromkeys(proof.node for proof in sorted(found, key=lambda proof: order[proof.feature])))
    lines = [
        "# Spark versions",
        "",
        "Written by `make docs` from the marks `sparks` of the tests. The same wheel runs on all of these:",
        "`pip install 'sparklog[spark]'` takes Spark 4.0 or newer. [Spark 3.5](#spark-35) needs the JAR; older ones",
        "are refused by name. A platform that brings its own Spark needs `pip install sparklog` alone.",
        "`make test SPARK=4.0` runs the tests below on that Spark, `make test-sparks` on all of them;",
        "`make test SPARK=3.5 SCALA=2.13` takes Spark 3.5 with that Scala.",
        "`make test-clusters` installs the wheel by pip into an empty environment for each, and runs the README there.",
        "",
        f"| | {' | '.join(f'Spark {spark}' for spark in VERSIONS)} |",
        f"|---|{'---|' * len(VERSIONS)}",
        f"| tested with | {' | '.join(_tested(spark) for spark in VERSIONS)} |",
        *(_row(feature, found, nodes) for feature in FEATURES),
        "",
        "A number names a test. *differs*: see below. *no*: refused, by a message that says why, as the test proves.",
        "",
        *(f"{number}. `{node}`" for number, node in enumerate(nodes, 1)),
        "",
        "## What differs",
        "",
        *(f"- {title}: {difference}." for title, difference in FEATURES.values() if difference),
        "",
        *_SPARK_3_5.splitlines(),
        "",
        "## The Python of the executors",
        "",
        "Executors run the Python that the driver names by `PYSPARK_PYTHON` or `spark.pyspark.python`: the one at this",
        "path on their machine, whatever `PYSPARK_PYTHON` is there. Without either, it is the first `python3` in their",
        "`PATH`. sparklog and its packages have to be there: a task without them fails with `ModuleNotFoundError`.",
        "`sparklog doctor` compares what tasks find with what the driver has.",
    ]
    return "\n".join(lines) + "\n"


def _row(feature: str, found: list[Proof], nodes: list[str]) -> str:
    cells = []
    for spark in VERSIONS:
        here = [p for p in found if p.feature == feature and is_about(numbers(spark), p.since, p.before, p.also)]
        if not here:
            raise ValueError(f"{feature}: no test is marked for Spark {spark}")
        tests = ", ".join(str(nodes.index(proof.node) + 1) for proof in here)
        later = {proof.since for proof in found if proof.feature == feature and not proof.refused}
        word = "differs" if any(proof.before in later - {None} and proof.also != spark for proof in here) else "yes"
        cells.append(f"{'*no*' if all(proof.refused for proof in here) else word}: {tests}")
    return f"| {FEATURES[feature][0]} | {' | '.join(cells)} |"


def _tested(spark: str) -> str:
    """The versions that are locked for the tests."""
    pins = dict(re.findall(r"^(pyspark|pyarrow)==([\w.]+)", lock_of(spark).read_text(encoding="utf-8"), re.MULTILINE))
    return f"{pins['pyspark']}, pyarrow {pins['pyarrow']}"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
