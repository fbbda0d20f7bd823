"""The contract on S3 stores, on real servers."""

from __future__ import annotations

from typing import ClassVar

import pytest

from sparklog.storage.open_store import open_store
from sparklog.storage.s3.upload import PART_BYTES
from tests.contract.object_store_contract import KIB, ObjectStoreContract
from tests.contract.racing_writers import WON, WRITERS, Round, race_threads
from tests.servers.s3_servers import S3Server

pytestmark = pytest.mark.slow


class S3Contract(ObjectStoreContract):
    """A fresh prefix of a fresh bucket; how the server is reached stands in the environment, as for other processes."""

    races: ClassVar[dict[int, int]] = {0: 10, KIB: 10, 300 * KIB: 3, PART_BYTES: 1, PART_BYTES + 1: 1}
    campaign: ClassVar[dict[int, int]] = {**ObjectStoreContract.campaign, PART_BYTES + 1: 50}  # sent in parts

    @pytest.fixture
    def server(self) -> S3Server:
        raise NotImplementedError("each server's class gives it")

    @pytest.fixture
    def store_url(self, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        return f"s3://{server.new_bucket()}/cluster"


class TestOnS3Proxy(S3Contract):
    below_objects = False  # it keeps objects in files, and answers 500 there

    @pytest.fixture
    def server(self, s3proxy: S3Server) -> S3Server:
        return s3proxy


class TestOnMinistack(S3Contract):
    @pytest.fixture
    def server(self, ministack: S3Server) -> S3Server:
        return ministack


@pytest.mark.campaign  # it asks nothing that the others do not, and takes three times as long
class TestOnMoto(S3Contract):
    @pytest.fixture
    def server(self, moto: S3Server) -> S3Server:
        return moto


def test_the_races_see_a_server_that_ignores_conditions(ignoring_conditions: S3Server) -> None:
    store = open_store(f"s3://{ignoring_conditions.new_bucket()}", ignoring_conditions.settings)
    assert [each.told for each in race_threads(store, [Round("race/a", KIB)])] == [[WON] * WRITERS]
