"""The contract on S3 stores, on real servers."""

from __future__ import annotations

import pytest

from tests.contract.object_store_contract import KIB, ObjectStoreContract
from tests.servers.s3_fixtures import ministack, moto, s3proxy
from tests.servers.s3_servers import S3Server

__all__ = ["ministack", "moto", "s3proxy"]

pytestmark = pytest.mark.slow


class S3Contract(ObjectStoreContract):
    """A fresh prefix of a fresh bucket; how the server is reached stands in the environment, as for other processes."""

    races = {0: 20, KIB: 20, 300 * KIB: 5, 8 * KIB * KIB: 1}  # noqa: RUF012

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


class TestOnMoto(S3Contract):
    @pytest.fixture
    def server(self, moto: S3Server) -> S3Server:
        return moto
