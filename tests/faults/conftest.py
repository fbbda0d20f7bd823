"""The fixture `place`: where a crash test runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults import crash_places
from tests.faults.crash_places import Place


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The place that a test names: memory, disk, s3 or hdfs; `parametrize("place", …, indirect=True)`."""
    match request.param:
        case "s3":
            found = crash_places.s3(request.getfixturevalue("s3proxy"))
        case "hdfs":
            found = crash_places.hdfs(request.getfixturevalue("hadoop"))
        case "disk":
            found = crash_places.disk()
        case _:
            found = crash_places.memory()
    with found as place:
        yield place
