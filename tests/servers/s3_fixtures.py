"""Fixtures that start each S3 server once for a test run. `tests/conftest.py` gives them to every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import s3_servers
from tests.servers.made_once import CannotFetch
from tests.servers.s3_servers import S3Server


@pytest.fixture(scope="session")
def s3proxy() -> Iterator[S3Server]:
    try:
        s3_servers.s3proxy_jar()
    except CannotFetch as error:
        pytest.skip(str(error))
    with s3_servers.s3proxy() as server:
        yield server


@pytest.fixture(scope="session")
def ministack() -> Iterator[S3Server]:
    with s3_servers.ministack() as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with s3_servers.moto() as server:
        yield server


@pytest.fixture(scope="session")
def ignoring_conditions() -> Iterator[S3Server]:
    """The negative control: it lets every writer win."""
    with s3_servers.ignoring_conditions() as server:
        yield server
