"""Fixtures that start each emulator of a cloud once for a test run. `tests/conftest.py` gives them to every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import cloud_servers
from tests.servers.cloud_servers import AzureServer, GcsServer
from tests.servers.made_once import CannotFetch


@pytest.fixture(scope="session")
def fake_gcs() -> Iterator[GcsServer]:
    try:
        with cloud_servers.fake_gcs() as server:
            yield server
    except CannotFetch as error:
        pytest.skip(f"this machine can't have fake-gcs-server: {error}")


@pytest.fixture(scope="session")
def azurite() -> Iterator[AzureServer]:
    try:
        with cloud_servers.azurite() as server:
            yield server
    except CannotFetch as error:
        pytest.skip(f"this machine can't have Azurite: {error}")
