"""Settings of every test run: where Hypothesis keeps its files, how hard it tries, what the machine can do."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

from sparklog.storage import probe
from tests.kit.budget import Played, Seeds, seeds_for
from tests.process_logging import ProcessLogging, forget_loggers_of_spark
from tests.scheduling import LONGER_IN_CAMPAIGN, ByServer, RandomOrder, is_whole_run, turn_of
from tests.servers import ahead
from tests.servers.cloud_fixtures import azurite as azurite
from tests.servers.cloud_fixtures import fake_gcs as fake_gcs
from tests.servers.hadoop_fixture import hadoop as hadoop  # every test may ask for it, and for these
from tests.servers.leftovers import begin_watching
from tests.servers.s3_fixtures import ignoring_conditions as ignoring_conditions
from tests.servers.s3_fixtures import ministack as ministack
from tests.servers.s3_fixtures import moto as moto
from tests.servers.s3_fixtures import s3proxy as s3proxy
from tests.spark_classes import short_lived_spark
from tests.spark_home import spark_home
from tests.sparks import SPARK, reason_to_skip

_CACHE = Path(__file__).parent.parent / ".cache" / "hypothesis"
set_hypothesis_home_dir(_CACHE)

# No deadline: on a busy machine it is a timed assert. Choose the other by --hypothesis-profile=thorough.
settings.register_profile("normal", deadline=None, database=DirectoryBasedExampleDatabase(_CACHE / "examples"))
settings.register_profile("thorough", settings.get_profile("normal"), max_examples=2_000)
settings.load_profile("normal")

# A cluster, a token or a Spark of the developer's shell must not reach a test.
for _name in [name for name in os.environ if name.startswith(("SPARKLOG_", "HADOOP_", "AWS_")) or name == "SPARK_HOME"]:
    del os.environ[_name]
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_HOME"] = str(spark_home())
CAMPAIGN_TIMEOUT_S = 1800  # for tests without a limit of their own: a campaign has hours, and a loaded machine
_OWN_JVM_OPTIONS = "SPARK_SUBMIT_OPTS" in os.environ
# A shell lets what it runs in the background ignore Ctrl-C, and so would every command line that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The probe of each new cluster's store would take longer than most tests. Those of the probe have `whole_probe`.
_ONE_ROUND = tuple(replace(races, fewest=1, most=1) for races in probe.AT_INIT)
_SHORT_PROBE = {"AT_INIT": _ONE_ROUND, "AT_INIT_WITH_THE_BODY": _ONE_ROUND, "WRITERS": 2, "_MANY": 6}
_WHOLE_PROBE = {name: getattr(probe, name) for name in _SHORT_PROBE}
for _name, _short in _SHORT_PROBE.items():
    setattr(probe, _name, _short)

_ahead: ahead.Ahead | None = None  # of the process that leads a run with several workers


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--campaign",
        action="store_true",
        help="hundreds of races and every fault at every call, instead of a few",
    )
    parser.addoption("--soak-seconds", type=float, default=45, help="how long tests/soak/test_soak.py makes trouble")
    parser.addoption("--soak-seed", type=int, default=1, help="which troubles, and in which order")
    parser.addoption("--columns", action="store_true", help="Spark sessions have sparklog's JAR: Java reads columns")
    parser.addoption("--seeds", help="A or A-B: random runs play these seeds, instead of their own")
    parser.addoption("--order-seed", type=int, help="run files and tests in a random order: the same for the same seed")


def pytest_configure(config: pytest.Config) -> None:
    begin_watching()
    if SPARK < (4, 2):  # its Python leaves sockets to the garbage collector
        config.addinivalue_line("filterwarnings", r"ignore:unclosed <socket\.socket:ResourceWarning")
    if SPARK < (4, 0):
        config.addinivalue_line("filterwarnings", "ignore:distutils Version classes are deprecated:DeprecationWarning")
    if (seed := config.getoption("--order-seed")) is not None:
        config.pluginmanager.register(RandomOrder(seed), "random order")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByServer:
    return ByServer(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: list[str]) -> None:
    global _ahead
    if _ahead is None and is_whole_run(ids):
        _ahead = ahead.begin()


def pytest_unconfigure() -> None:
    if _ahead is not None:
        ahead.end(_ahead)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[object]:
    before = ProcessLogging.now()
    try:
        return (yield)
    finally:
        before.put_back()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Every driver that a test starts takes these options. They change when the archive of classes is written."""
    forget_loggers_of_spark()
    if not _OWN_JVM_OPTIONS:
        os.environ["SPARK_SUBMIT_OPTS"] = " ".join(short_lived_spark())
    return (yield)


def gateway_of_spark() -> object | None:
    """The JVM of this process, if it has one."""
    pyspark = sys.modules.get("pyspark")
    return pyspark.SparkContext._gateway if pyspark is not None else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    forget_loggers_of_spark()
    before = gateway_of_spark()
    try:
        result = yield
    except Exception as error:
        seeds = getattr(item, "funcargs", {}).get("seeds")
        if isinstance(seeds, Seeds) and seeds.playing is not None:
            error.add_note(seeds.how_to_repeat(item.nodeid))
        raise
    if before is None and gateway_of_spark() is not None and "one_spark" not in getattr(item, "fixturenames", ()):
        pytest.fail("in this process Spark starts by the fixture one_spark, which ends it")
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    forget_loggers_of_spark()
    return (yield)


def pytest_exception_interact(node: pytest.Item, call: pytest.CallInfo[object]) -> None:
    """After a test that took too long, Spark starts anew: its jobs still run, and all later tests would fail."""
    one_spark = getattr(node, "funcargs", {}).get("one_spark")
    if one_spark is not None and call.excinfo is not None and "from pytest-timeout" in str(call.excinfo.value):
        one_spark.kill()


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.config.getoption("--campaign"):
        if item.nodeid.startswith(LONGER_IN_CAMPAIGN):
            item.add_marker("campaign")
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(CAMPAIGN_TIMEOUT_S))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if (reason := reason_to_skip(item)) is not None:
            item.add_marker(pytest.mark.skip(reason))
    if not config.getoption("--campaign") and config.option.markexpr != "sparks":
        left = {item for item in items if item.get_closest_marker("campaign") and item.nodeid not in config.args}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    if (order := config.pluginmanager.get_plugin("random order")) is not None:
        items.sort(key=lambda item: order.turn_of(item.nodeid.partition("::")[0]))
        return
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: turn_of(item.nodeid.partition("::")[0], slow=item.path in slow))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each worker of a run of all tests begins to import them elsewhere: in a new clone each compiles its share."""
    work: dict[str, str] | None = getattr(session.config, "workerinput", None)
    if work is None or session.config.args != ["tests"]:
        return
    folder = Path(__file__).parent
    files = sorted(folder.rglob("test_*.py"))
    first = len(files) * int(work["workerid"].removeprefix("gw")) // int(work["workercount"])
    for file in [*folder.rglob("conftest.py"), *files[first:], *files[:first]]:
        with suppress(Exception, pytest.skip.Exception):  # collection says what is wrong
            importlib.import_module(".".join(file.relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_collection_finish() -> None:
    gc.freeze()  # else every collection also walks over all that was imported and collected


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, bool, bool]:
    try:
        return (yield)
    except Played:
        return True


@pytest.fixture
def whole_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new store is probed as users have it."""
    for name, whole in _WHOLE_PROBE.items():
        monkeypatch.setattr(probe, name, whole)


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> Seeds:
    """The seeds of a test that is marked by `random_runs`."""
    return seeds_for(request.param, request.config.getoption("--seeds"))


@pytest.fixture
def can_mount() -> None:
    if os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk needs root and unshare")
    if subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False, stderr=subprocess.DEVNULL
    ).returncode:
        pytest.skip("this machine does not let root mount a small disk")
