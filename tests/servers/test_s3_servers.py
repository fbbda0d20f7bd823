"""The S3 servers of the tests do what tests rely on."""

from __future__ import annotations

import pytest

from sparklog.core.errors import StoreUnavailable
from sparklog.storage.open_store import open_store
from tests.servers.made_once import CannotFetch
from tests.servers.s3_servers import s3proxy, s3proxy_jar


# M: F-01 (kills)
def test_what_s3proxy_acknowledged_outlives_its_kill() -> None:
    try:
        s3proxy_jar()
    except CannotFetch as error:
        pytest.skip(str(error))
    with s3proxy() as server:
        store = open_store(f"s3://{server.new_bucket()}", {**server.settings, "timeout_ms": "30000"})
        store.put_if_absent("a", b"body")
        server.kill()
        with pytest.raises(StoreUnavailable):
            store.get("a")
        server.restart()
        assert bytes(store.get("a")) == b"body"
