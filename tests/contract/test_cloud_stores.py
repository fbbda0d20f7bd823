"""The contract on stores in Google Cloud Storage and in Azure, on emulators of these."""

from __future__ import annotations

from typing import ClassVar

import pytest
from azure.storage.blob import BlobServiceClient

from sparklog.host.dice import new_id
from sparklog.storage.cloud.bodies import PIECE_BYTES, Body
from sparklog.storage.cloud.store import CloudStore
from sparklog.storage.open_store import open_store
from tests.contract.object_store_contract import KIB, ObjectStoreContract
from tests.servers.cloud_servers import AzureServer, CloudServer, GcsServer

pytestmark = pytest.mark.slow


class CloudContract(ObjectStoreContract):
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

    def test_objects_by_which_consoles_show_folders_are_no_keys(self, store_url: str) -> None:
        store = open_store(store_url)
        assert isinstance(store, CloudStore)
        for folder in ("", "log/", "log/x/"):
            store._cloud.put(f"cluster/{folder}", new_id(), Body.of(b""), 10)
        store.put_if_absent("log/x/a", b"body")
        assert [each.key for each in store.list_keys("")] == ["log/x/a"]
        assert store.first_key_after("log/", "log/a") == "log/x/a"
        assert store.first_key_after("log/x/", "log/x/a") is None


class TestOnFakeGcs(CloudContract):
    @pytest.fixture
    def server(self, fake_gcs: GcsServer) -> GcsServer:
        return fake_gcs


class TestOnAzurite(CloudContract):
    @pytest.fixture
    def server(self, azurite: AzureServer) -> AzureServer:
        return azurite

    def test_directories_of_an_account_that_has_them_are_no_keys(self, server: AzureServer, store_url: str) -> None:
        store = open_store(store_url)
        store.put_if_absent("log/a", b"body")
        with BlobServiceClient.from_connection_string(server.connection_string) as client:
            container = client.get_container_client(store_url.split("/")[2])
            container.upload_blob("cluster/log", b"", metadata={"hdi_isfolder": "true"})
        assert [each.key for each in store.list_keys("")] == ["log/a"]
