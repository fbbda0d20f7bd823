"""The contract on stores in a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.object_store_contract import ObjectStoreContract


class TestLocalStore(ObjectStoreContract):
    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        return (tmp_path / "parent" / "store").as_uri()
