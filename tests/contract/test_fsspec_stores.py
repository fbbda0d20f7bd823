"""The contract on stores in Google Cloud Storage and in Azure, on emulators of these."""

from __future__ import annotations

from typing import ClassVar

import pytest

from sparklog.storage.fsspec.bodies import PIECE_BYTES
from tests.contract.object_store_contract import KIB, ObjectStoreContract
from tests.servers.cloud_servers import AzureServer, CloudServer, GcsServer

pytestmark = pytest.mark.slow


class FsspecContract(ObjectStoreContract):
    """How the server is reached stands in the environment, as for other processes."""

    races: ClassVar[dict[int, int]] = {0: 10, KIB: 30, 300 * KIB: 3, PIECE_BYTES: 1, PIECE_BYTES + 1: 1}
    campaign: ClassVar[dict[int, int]] = {**ObjectStoreContract.campaign, PIECE_BYTES + 1: 50}  # from a file

    @pytest.fixture
    def server(self) -> CloudServer:
        raise NotImplementedError("each server's class gives it")

    @pytest.fixture
    def store_url(self, server: CloudServer, monkeypatch: pytest.MonkeyPatch) -> str:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        return server.new_url()


class TestOnFakeGcs(FsspecContract):
    @pytest.fixture
    def server(self, fake_gcs: GcsServer) -> GcsServer:
        return fake_gcs


class TestOnAzurite(FsspecContract):
    @pytest.fixture
    def server(self, azurite: AzureServer) -> AzureServer:
        return azurite
