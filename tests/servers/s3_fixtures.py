"""Fixtures that start each S3 server once for a test run; name them in a test file's imports, or as a plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import s3_servers
from tests.servers.maven import CannotFetch
from tests.servers.s3_servers import S3Server


@pytest.fixture(scope="session")
def s3proxy() -> Iterator[S3Server]:
    try:
        running = s3_servers.s3proxy()
        server = running.__enter__()
    except CannotFetch as error:
        pytest.skip(str(error))
    try:
        yield server
    finally:
        running.__exit__(None, None, None)


@pytest.fixture(scope="session")
def ministack() -> Iterator[S3Server]:
    with s3_servers.ministack() as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with s3_servers.moto() as server:
        yield server
