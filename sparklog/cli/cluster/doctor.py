"""`sparklog doctor`: find problems of this machine and, with a cluster, of the access to its stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import typer

from sparklog.cli.common_options import settings
from sparklog.cli.output import connect, ending, show_rows, status

if TYPE_CHECKING:
    from sparklog.core.errors import SparklogError
    from sparklog.spark.installations import Installation
    from sparklog.storage.object_store import ObjectStore

OK = "ok"
WARNING = "warning"
STORES_PAGE = "see docs/stores.md"
SPARK = typer.Option(
    True, help="Also check Java and Spark, start Spark, and compare the packages installed where its tasks run."
)
DOCTOR_EPILOG = ending(
    "sparklog doctor",
    "sparklog doctor --no-spark",
    "sparklog doctor --cluster s3://bucket/log --format json",
)
CLUSTER_DOCTOR_EPILOG = ending("sparklog cluster doctor", "sparklog cluster doctor --no-spark --format json")


class Diagnosis(NamedTuple):
    """The result of one check of `what`, such as a store or this machine. `check` is the condition that should hold.

    `problem` is "ok" if it holds, "warning" if it may fail for some programs, otherwise the reason why not. `mend` is
    the remedy; None if there is none.
    """

    what: str
    check: str
    problem: str = OK
    mend: str | None = None

    def row(self) -> dict[str, str | None]:
        """The diagnosis as a row of the table that `show` prints."""
        return {"what": self.what, "check": self.check, "found": self.problem, "mend": self.mend}


def doctor(spark: bool = SPARK) -> None:
    """Find problems of this machine (Java, Spark, the Python of Spark's tasks) and of a cluster's stores.

    Each problem is shown with its remedy. The stores are checked if a cluster is given (--cluster, --config or
    SPARKLOG_CLUSTER). The packages for their addresses must be installed, and each store must support put-if-absent,
    read-after-write, ordered listings, ranged reads and deletes: without them, a log would lose writes. The check lets
    writers race under probe/, and removes its objects. Exit 5 if there is a problem.
    """
    show(examine(settings.cluster_if_named(), spark=spark))


def cluster_doctor(spark: bool = SPARK) -> None:
    """Make all checks of `sparklog doctor`: of a cluster's stores, Java, Spark and the Python of Spark's tasks.

    The cluster must be given. Exit 5 if there is a problem.
    """
    show(examine(settings.cluster(), spark=spark))


def show(diagnoses: Iterator[Diagnosis]) -> None:
    """Print the diagnoses. Exit 5 if one is neither ok nor a warning."""
    rows = [diagnosis.row() for diagnosis in diagnoses]
    show_rows(rows, empty="nothing was checked: give --cluster URL, or leave out --no-spark")
    if any(row["found"] not in (OK, WARNING) for row in rows):
        raise typer.Exit(5)


def examine(url: str | None, *, spark: bool) -> Iterator[Diagnosis]:
    """Yield all diagnoses: those of the cluster, unless `url` is None; then, with `spark`, those of Java and Spark."""
    if url is not None:
        yield from _cluster(url)
    if spark:
        yield from _spark()


# ---- the cluster --------------------------------------------------------------------------------------


def _cluster(url: str) -> Iterator[Diagnosis]:
    from sparklog.core.errors import ClusterNotFound, InvalidOption, SparklogError
    from sparklog.storage.open_store import absolute_url, registered_url

    if not url.startswith(("http://", "https://")):
        missing = _extra("metadata", absolute_url(url))
        yield from missing
        if any(extra.problem != OK for extra in missing):
            return
    try:
        with connect() as cluster:
            state = cluster.connection.newest_state()
            opened = cluster.connection.stores(state)
            stores = {"metadata": cluster.connection.follower.store}
            for store_id, store in state.stores.items():
                missing = _extra(str(store_id), registered_url(cluster.connection.url, store.url))
                yield from (extra for extra in missing if extra.problem != OK)
                if any(extra.problem != OK for extra in missing):
                    continue
                try:
                    stores[str(store_id)] = opened.get(store_id)
                except SparklogError as error:  # the other stores are still probed
                    yield _failed(str(store_id), "it can be opened", error)
    except (ClusterNotFound, InvalidOption):
        raise
    except SparklogError as error:
        yield _failed("metadata", "the cluster can be opened", error)
        return
    places: dict[str, list[str]] = {}
    for name, place in stores.items():
        places.setdefault(place.url, []).append(name)
    for place_url, names in places.items():
        yield from _probed(" and ".join(names), stores[names[0]], place_url)


def _extra(what: str, url: str) -> list[Diagnosis]:
    """Check that the packages which the address `url` of the store `what` needs are installed. [] if it needs none."""
    from sparklog.host.extras import extra_of, install_line, missing_modules

    extra = extra_of(url)
    if extra is None:
        return []
    missing = missing_modules(extra)
    check = f"the packages of sparklog's extra {extra!r} are installed"
    return [
        Diagnosis(what, check, f"no {', '.join(missing)}", install_line(extra)) if missing else Diagnosis(what, check)
    ]


def _probed(name: str, store: ObjectStore, url: str) -> Iterator[Diagnosis]:
    from sparklog.core.errors import SparklogError
    from sparklog.host.dice import new_id
    from sparklog.storage.probe import probe

    status(f"probing {url}")
    try:
        checks = probe(store, new_id(), thorough=True)
    except SparklogError as error:
        yield _failed(name, "it answers", error)
        return
    for check in checks:
        mend = f"use another store, or another server for it: {STORES_PAGE}" if check.fault else None
        yield Diagnosis(name, check.check, check.fault or OK, mend)


def _failed(what: str, check: str, error: SparklogError) -> Diagnosis:
    """Return the diagnosis and remedy for a check of store `what` that ended with `error`."""
    from sparklog.client.error_line import print_traceback_if_wanted
    from sparklog.core.errors import MAKE_ROOM, StoreAccessDenied, StoreFull, StoreReadOnly, StoreUnavailable

    print_traceback_if_wanted()
    match error:
        case StoreAccessDenied() | StoreReadOnly():
            mend = f"give this process's user or keys the right to read and write there: {STORES_PAGE}"
        case StoreFull():
            mend = MAKE_ROOM
        case StoreUnavailable():
            mend = f"check that its address is right and reachable from here: {STORES_PAGE}"
        case _:
            mend = f"correct the address, the keys or the settings that the message names: {STORES_PAGE}"
    return Diagnosis(what, check, str(error), mend)


# ---- Spark --------------------------------------------------------------------------------------------


def _spark() -> Iterator[Diagnosis]:
    from sparklog.core.errors import SparklogError
    from sparklog.host.extras import install_line
    from sparklog.host.java import OLDEST, java_problem

    problem = java_problem()
    install = "apt-get install openjdk-17-jre-headless, or set JAVA_HOME to a Java that you have"
    java = Diagnosis("this machine", f"Java {OLDEST} or newer", problem or OK, install if problem else None)
    yield java
    try:
        from sparklog.spark import check_spark

        check_spark()
    except SparklogError as error:
        yield Diagnosis("this machine", "Spark 3.5 or newer", error.message, install_line("spark"))
        return
    yield Diagnosis("this machine", "Spark 3.5 or newer")
    if java.problem == OK:
        yield from _tasks()


def _tasks() -> Iterator[Diagnosis]:
    """Compare the installation of this process with those of Spark's tasks. Yield one diagnosis for each host."""
    from sparklog.core.errors import SparklogError
    from sparklog.spark.installations import installation_here, installations
    from sparklog.spark.jar import function_advice
    from sparklog.spark.job_session import job_session

    status("starting Spark to compare the packages installed where its tasks run")
    driver = installation_here()
    check = "Python and packages are the driver's"
    try:
        for installation in installations(lambda: job_session("doctor")):
            differences = "; ".join(installation.differences(driver)) or OK
            mend = None if differences == OK else mend_tasks(driver, installation)
            yield Diagnosis(f"Spark tasks on {installation.host}", check, differences, mend)
        advice = function_advice(lambda name: job_session("doctor").conf.get(name, None))
        if advice is not None:  # not of sparklog's own jobs
            yield Diagnosis("Spark", "functions in Python run", WARNING, advice)
    except SparklogError as error:
        mend = "set PYSPARK_PYTHON to a Python that every executor has, with sparklog: docs/spark_versions.md"
        yield Diagnosis("Spark tasks", check, str(error), mend)


def mend_tasks(driver: Installation, tasks: Installation) -> str:
    """Return the remedy for a difference between driver and tasks: the Python to set, or the packages to install."""
    version = driver.python.rpartition(".")[0]
    if tasks.python.rpartition(".")[0] != version:
        return f"set PYSPARK_PYTHON (or spark.pyspark.python) to a Python {version} that every executor has"
    wanted = [name for name, installed in driver.versions.items() if tasks.versions.get(name, "") != installed]
    return f"there: pip install {' '.join(f'{name}=={driver.versions[name]}' for name in wanted)}"
