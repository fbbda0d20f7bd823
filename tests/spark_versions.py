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
_MORE = {"4.2": "requirements/dev.lock"}  # the lock files of the others have their version in their name


@dataclass(frozen=True)
class Proof:
    """A test that proves a feature on the versions that `is_about` says."""

    feature: str
    node: str
    since: str | None = None
    before: str | None = None
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


def page() -> str:
    """The whole page. Raises ValueError if a cell would be empty."""
    found = proofs()
    order = {name: place for place, name in enumerate(FEATURES)}
    nodes = list(dict.fromkeys(proof.node for proof in sorted(found, key=lambda proof: order[proof.feature])))
    lines = [
        "# Spark versions",
        "",
        "Written by `make docs` from the marks `sparks` of the tests. The same wheel runs on all of these:",
        "`pip install 'sparklog[spark]'` takes Spark 4.0 or newer. "
        "Spark 3.5 and older have no data sources in Python, and are",
        "refused by name. A platform that brings its own Spark needs `pip install sparklog` alone.",
        "`make test SPARK=4.0` runs the tests below on that Spark, `make test-sparks` on all of them.",
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
        here = [p for p in found if p.feature == feature and is_about(numbers(spark), p.since, p.before)]
        if not here:
            raise ValueError(f"{feature}: no test is marked for Spark {spark}")
        tests = ", ".join(str(nodes.index(proof.node) + 1) for proof in here)
        later = {proof.since for proof in found if proof.feature == feature and not proof.refused}
        word = "differs" if any(proof.before in later - {None} for proof in here) else "yes"
        cells.append(f"{'*no*' if all(proof.refused for proof in here) else word}: {tests}")
    return f"| {FEATURES[feature][0]} | {' | '.join(cells)} |"


def _tested(spark: str) -> str:
    """The versions that are locked for the tests."""
    lock = (ROOT / _MORE.get(spark, f"requirements/spark-{spark}.lock")).read_text(encoding="utf-8")
    pins = dict(re.findall(r"^(pyspark|pyarrow)==([\w.]+)", lock, re.MULTILINE))
    return f"{pins['pyspark']}, pyarrow {pins['pyarrow']}"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
