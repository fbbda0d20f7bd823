"""Every command of the pages, of conf/ and of the Makefile's help is one that there is, and every key is declared.

Blocks that begin with ```bash are run, by the test that RUN_BY names. All commands, also those in other blocks, in
indented lines and in running text, are tried at an address without a cluster: the real command line first checks their
options and values. Not checked are the options of spark-submit itself, and what ARGS= of `make` holds.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from sparklog.cli.main import run, run_job
from sparklog.cli.records.produce_files import main as produce
from sparklog.core.cost.prices import prices_of
from sparklog.storage.config_file import read_config_file
from tests.docs.markdown_pages import PAGES, ROOT
from tests.maintenance.test_schedules import commands_of_the_dag_file, cron_lines

RUN_BY = {
    "docs/clusters.md": "tests/clusters/page.py",
    "docs/consumer.md": "tests/docs/test_consumer.py",
    "docs/coordinator.md": "tests/docs/test_coordinator.py",
    "docs/cost.md": "tests/cost_table.py",  # the page, for tests/docs/test_cost.py
    "docs/groups.md": "tests/docs/test_groups.py",
    "docs/maintenance.md": "tests/docs/test_maintenance.py",
    "docs/migrate-clients.md": "tests/docs/test_migrate_clients.py",
    "docs/quickstart.md": "tests/docs/readme_snippets.py",
    "docs/producer.md": "tests/docs/test_producer.py",
    "docs/replication.md": "tests/docs/test_replication.py",
    "docs/security.md": "tests/docs/test_security.py",
    "docs/http.md": "tests/docs/test_http.py",
    "docs/jvm.md": "tests/docs/test_jvm.py",
    "docs/moving.md": "tests/spark/mirror/test_moving_page.py",
    "docs/streams.md": "tests/spark/stream/test_spark_home.py",
}
PROGRAM = r"(?:sparklog(?:_inside)?|make|pip|python[\d.]*|spark-submit)"
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```\s*$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(rf"^    ({PROGRAM} (?:\\\n|.)*)$", re.MULTILINE)
INLINE = re.compile(rf"`({PROGRAM} [^`]+)`")
HERE_DOCUMENT = re.compile(r"<<'(\w+)'\n.*?^\1$", re.DOTALL | re.MULTILINE)
JOB = re.compile(r"(?:\S*/)?jobs/(\w+)\.py")
BETWEEN = ";<>()|&\n"  # commands, or a command and its files
PLACEHOLDERS = {"N": "1", "P": "1", "NAME": "roll"}
# They make a cluster, or would ask its stores: only the names of their options are checked.
PARSED = (["cluster", "init"], ["cluster", "restore"], ["doctor"])
REACHED = re.compile(
    r"CLUSTER_NOT_FOUND|can't be read(?: and written)?: (?:\[Errno 2\] )?No such file|RESOURCE_NOT_FOUND: wanted a file"
)
# A verb or an option that running text names.
UNFINISHED = re.compile(r"Missing (argument|option)|requires an argument|wanted exactly one of --to|nothing to change")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# `make test`, (make docs), "make lock", and lines that begin so; not "make it …" in a sentence.
NAMED = re.compile(r"(?:[`(\"]|: |^[ #]*)make (?!(?:an?|its?|no|one|sure|the|them)\b)([a-z][a-z-]*)", re.MULTILINE)
LOCKED = re.findall(r"^([\w-]+)==", (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8"), re.MULTILINE)


def scripts(text: str) -> Iterator[tuple[str, bool]]:
    """The scripts of a page. True for those that are whole commands, and not names of verbs in a sentence."""
    for kind, block in BLOCK.findall(text):
        if kind in ("bash", "console") or (not kind and re.match(PROGRAM, block)):
            yield block, True
    rest = BLOCK.sub("", text)
    yield from ((script, True) for script in INDENTED.findall(rest))
    yield from ((script, False) for script in INLINE.findall(rest))


def commands(script: str) -> Iterator[list[str]]:
    """The words of each command of a shell script, without the variables and shell words before it."""
    plain = re.sub(r"\s#.*$", "", HERE_DOCUMENT.sub("", script).replace("\\\n", " "), flags=re.MULTILINE)
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=BETWEEN)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    for word in [*lexer, "\n"]:
        if set(word) <= set(BETWEEN):
            if words:
                yield words
            words = []
        elif words or not re.match(r"\w+=|(until|do|then|if|export|!)$", word):
            words.append(word)


def check(words: list[str], whole: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Raise AssertionError for a command of ours that does not exist or does not take its arguments."""
    if words[1:3] == ["-m", "sparklog"]:
        words = ["sparklog", *words[3:]]
    program = words[0].rpartition("/")[2]
    jobs = [at for at, word in enumerate(words) if JOB.fullmatch(word) and program != "aws"]  # which copies files
    if jobs:
        (job,) = JOB.findall(words[jobs[0]])
        check_taken(PLACEHOLDERS.get(job, job), words[jobs[0] + 1 :], whole, capsys)
    elif (
        program in ("sparklog", "sparklog_inside") and "--install-completion" not in words
    ):  # tests/cli/test_completion.py
        check_taken(None, words[1:], whole, capsys)
    elif program == "make":
        check_made(words[1:])
    elif program == "pip":
        check_installed(words[2:])
    elif program.startswith("python") and words[1:2] == ["-m"]:
        assert importlib.util.find_spec(words[2]), words
    elif program.startswith("python") and words[1:2] and not words[1].startswith("-"):
        assert (ROOT / words[1]).is_file(), words


def check_taken(job: str | None, arguments: list[str], whole: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Give the arguments to a file of jobs/, or to `sparklog`."""
    words = [PLACEHOLDERS.get(word, word) for word in arguments]
    parsed = any(words[: len(verbs)] == verbs for verbs in PARSED)
    words += ["--help"] if parsed else ["--cluster", str(Path.cwd() / "none")]
    capsys.readouterr()
    if job is None:
        code = run(words)
    else:
        assert (ROOT / "jobs" / f"{job}.py").is_file(), job
        code = produce(words) if job == "produce" else run_job(job, words)
    said = capsys.readouterr().err
    assert code == 0 or REACHED.search(said) or (not whole and UNFINISHED.search(said)), (job, arguments, said)


def check_made(words: list[str]) -> None:
    for word in words:
        name, variable, _ = word.partition("=")
        assert f"$({name})" in MAKEFILE if variable else re.search(rf"^{name}:", MAKEFILE, re.MULTILINE), f"make {word}"


def docstrings(file: Path) -> str:
    """All docstrings of a file."""
    nodes = ast.walk(ast.parse(file.read_bytes()))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return "\n".join(ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented))


def check_installed(words: list[str]) -> None:
    for word in words:
        if not word.startswith("-") and not word.endswith(".whl"):
            wanted = Requirement(word)
            assert wanted.name in ("sparklog", *LOCKED), word
            if wanted.name == "sparklog":
                assert wanted.extras <= PROJECT["optional-dependencies"].keys(), word


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run in, in a bash, without variables that name a cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))  # else that of the run: maybe sh
    for name in [name for name in os.environ if name.startswith("SPARKLOG_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_taken(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for script, whole in scripts(page.read_text(encoding="utf-8")):
        for words in commands(script):
            check(words, whole, capsys)


def test_the_shell_blocks_of_every_page_are_run_by_a_test() -> None:
    kinds = {str(page.relative_to(ROOT)): BLOCK.findall(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page for page, blocks in kinds.items() if any(kind == "bash" for kind, _ in blocks)} == RUN_BY.keys()
    for page, test in RUN_BY.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), page


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    "wrong",
    [
        "sparklog topic create orders --partition 3",
        "sparklog topic creat orders",
        "sparklog consume orders --partition one",
        "sparklog cluster init --stores a=/a",
        "spark-submit --master yarn jobs/roll.py --al",
        "spark-submit jobs/rol.py",
        "make tests",
        "make test TEST=tests/core",
        "pip install 'sparklog[s4]'",
        "pip install sparklogs",
        "python -m tests.simulator",
        "python examples/demos.py",
    ],
)
def test_a_wrong_command_is_noticed(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    (words,) = commands(wrong)
    with pytest.raises(AssertionError):
        check(words, True, capsys)


def test_every_target_that_a_page_a_docstring_or_a_lock_file_names_is_one_of_the_makefile() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in (*PAGES, *(ROOT / "terraform").rglob("*.md"))}
    texts |= {file: file.read_text(encoding="utf-8") for file in (ROOT / "requirements").iterdir()}
    files = [file for name in ("sparklog", "pyspark_sparklog", "tests") for file in (ROOT / name).rglob("*.py")]
    files += [file for name in ("jobs", "scripts", "examples") for file in (ROOT / name).glob("*.py")]
    may_name = [file for file in files if NAMED.search(file.read_text(encoding="utf-8").replace("\\\n", ""))]
    texts |= {file: docstrings(file) for file in may_name}  # to parse all the others would take seconds
    named = {(target, file) for file, text in texts.items() for target in NAMED.findall(text)}
    assert {"docs", "dist", "test", "lock", "tf-check"} <= {target for target, _ in named}
    for target, file in sorted(named):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), (target, file)


def test_the_makefile_and_its_help_name_what_there_is() -> None:
    for name in re.findall(r"\b([A-Z]+)=", "".join(re.findall(r"## .*", MAKEFILE))):
        assert f"$({name})" in MAKEFILE, name
    for name in re.findall(r"(?<![\w/.])(?:tests|scripts|examples|requirements)/[\w/.]*\w", MAKEFILE):
        assert (ROOT / name).exists() or name == "requirements/spark-", name
    for module in re.findall(r"python -m ([\w.]+)", MAKEFILE):
        assert importlib.util.find_spec(module), module


def test_a_make_for_another_spark_has_its_python_workers() -> None:
    """As `make test-sparks` starts it: the environment is that of the outer make."""
    command = ["make", "-s", "--eval=show: ; @echo $$PYSPARK_PYTHON", "show", "SPARK=4.0"]
    outer = os.environ | {"PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(command, cwd=ROOT, env=outer, check=True, capture_output=True, text=True)
    assert ran.stdout == f"{ROOT}/.cache/sparks/4.0/bin/python\n"


def test_the_commands_of_conf_are_taken(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in (*(line for _, line in cron_lines()), *commands_of_the_dag_file().values()):
        for words in commands(line):
            check(words, True, capsys)
    found = 0
    for file in (ROOT / "conf" / "kubernetes").rglob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        for arguments in re.findall(r"^ *args: (\[.*\])", text, re.MULTILINE):
            check(["sparklog", *yaml.safe_load(arguments)], True, capsys)
            found += 1
        for job, arguments in re.findall(r"^  pyFiles: (\S+)\n  driverArgs: (\[.*\])", text, re.MULTILINE):
            check(["spark-submit", job, *yaml.safe_load(arguments)], True, capsys)
            found += 1
    assert found == 4


def test_the_keys_of_conf_and_of_the_pages_are_declared(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = (ROOT / "conf" / "sparklog.toml").read_text(encoding="utf-8")
    texts = [re.sub(r"^# (?=\w+ = |\[[\w.]+\]$)", "", example, flags=re.MULTILINE)]
    texts += [text for page in PAGES for kind, text in BLOCK.findall(page.read_text()) if kind == "toml"]
    configs = [text for text in texts if "[principal." not in text]  # tests/docs/test_security.py
    assert len(configs) == 3
    for text in configs:
        (nowhere / "sparklog.toml").write_text(text, encoding="utf-8")
        config = read_config_file("sparklog.toml", "--config")
        if config.job_command is not None:
            command = config.job_command.format(job="roll", cluster="/c", report="r.json")
            check(shlex.split(command), True, capsys)
    prices = tomllib.loads((ROOT / "conf" / "prices.toml").read_text(encoding="utf-8"))
    assert all(prices_of(provider, prices, "conf/prices.toml").region for provider in prices)


def test_the_variables_that_conf_and_the_pages_name_are_read() -> None:
    code = [*(ROOT / "sparklog").rglob("*.py"), *(ROOT / "jvm").rglob("*.java")]
    sources = "".join(path.read_text(encoding="utf-8") for path in code)
    files = [*PAGES, *(path for path in (ROOT / "conf").rglob("*") if path.is_file())]
    for file in files:
        for name in re.findall(r"\bSPARKLOG_[A-Z_]*[A-Z]\b", file.read_text(encoding="utf-8")):
            assert f'"{name}"' in sources, (file, name)
