"""The fixture `hadoop`: one small HDFS for all tests of a process that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.hadoop import Hadoop
from tests.servers.made_once import CannotFetch


@pytest.fixture(scope="session")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """Started when the first test asks. A test that hurts a node mends it before it ends."""
    server = Hadoop(tmp_path_factory.mktemp("hadoop"))
    try:
        server.start()
    except CannotFetch as error:
        pytest.skip(f"this machine can't fetch Hadoop: {error}")
    except BaseException:
        server.stop()
        raise
    yield server
    server.stop()
