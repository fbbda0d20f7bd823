"""The contract on stores in HDFS."""

from __future__ import annotations

import uuid
from typing import ClassVar

import pytest

from tests.contract.object_store_contract import KIB, ObjectStoreContract
from tests.servers.hadoop import Hadoop

pytestmark = pytest.mark.slow


class TestHdfsStore(ObjectStoreContract):
    races: ClassVar[dict[int, int]] = {0: 20, KIB: 20, 300 * KIB: 5, 8 * KIB * KIB: 1}

    @pytest.fixture
    def store_url(self, hadoop: Hadoop) -> str:
        return f"{hadoop.url}/{uuid.uuid4().hex}/store"
