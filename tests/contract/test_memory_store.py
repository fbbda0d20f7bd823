"""The contract on stores in memory."""

from __future__ import annotations

import uuid

import pytest

from tests.contract.object_store_contract import ObjectStoreContract


class TestMemoryStore(ObjectStoreContract):
    other_processes = False

    @pytest.fixture
    def store_url(self) -> str:
        return f"memory://{uuid.uuid4().hex}"
