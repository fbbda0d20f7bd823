"""What must be true after a cluster was restored, by the journals of all that ran and the log that is there at the end.

The promises of a soak (`tests/soak/checker.py`), and:

over             no append is acknowledged by the lost chain that began after a restore had succeeded
stores           the stores that a command line added are there
said             nobody ends with a traceback, or with an error that is not one of sparklog's
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

import sparklog
from sparklog.core.errors import SparklogError
from tests.soak.checker import History, complaints
from tests.soak.journal import Line
from tests.soak.writer import PARTITIONS, TOPIC

_UNFORESEEN = re.compile(r"Traceback|UNKNOWN_SERVER_ERROR|Error in sys|Fatal Python")


def read_log(url: str) -> dict[int, list[str]]:
    """All values of the topic, by partition. Raises AssertionError if offsets are missing, and what a read raises."""
    log = {}
    with sparklog.connect(url) as cluster:
        for partition in range(PARTITIONS):
            rows = cluster.read(TOPIC, partition=partition)
            offsets = rows["offset"].to_pylist()
            if offsets != list(range(len(offsets))):
                raise AssertionError(f"partition {partition}: wanted all offsets from 0, found {offsets}")
            log[partition] = [value.decode() for value in rows["value"].to_pylist()]
    return log


def broken(
    url: str,
    writers: Mapping[str, Sequence[Line]],
    restored_at: Mapping[str, int],
    stores: Set[str],
    counts: Counter[str],
) -> list[str]:
    """All that is wrong with the cluster at `url`, whose stores should be `stores`.

    `restored_at`: when the chain of each writer was restored, if it was.
    """
    try:
        log = read_log(url)
        with sparklog.connect(url) as cluster:
            found = {str(each.store) for each in cluster.stores()}
    except (SparklogError, AssertionError) as error:
        return [f"the log can't be read: {error}"]
    history = History(writers, {}, counts)
    missing = [f"store {each} was added, and is not there" for each in stores - found]
    return [*missing, *complaints(history, {"restored": log}), *_after_the_end(writers, restored_at)]


def _after_the_end(writers: Mapping[str, Sequence[Line]], restored_at: Mapping[str, int]) -> Iterator[str]:
    for name, lines in writers.items():
        begun = {line["begin"]: line["at"] for line in lines if "begin" in line}
        for line in lines:
            if "acked" in line and begun[line["acked"]] > restored_at.get(name, line["at"]):
                yield f"writer {name}: turn {line['acked']} was acknowledged, and began after the restore had succeeded"


def unforeseen(said: Path) -> list[str]:
    """What processes said that they should not have."""
    return [
        f"{path.name}: {path.read_text(errors='replace')[-3000:]}"
        for path in sorted(said.iterdir())
        if _UNFORESEEN.search(path.read_text(errors="replace"))
    ]
