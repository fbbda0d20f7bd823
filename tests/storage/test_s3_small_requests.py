"""Small requests to S3 by s3fs: what is relied on, and why objects are not read and listed by its other calls."""

from __future__ import annotations

from typing import Any

import pytest
import s3fs

from sparklog.core.errors import StoreUnavailable
from sparklog.storage.s3.small_requests import _S3Files
from tests.storage.scripted_s3 import ScriptedS3, scripted_s3
from tests.storage.test_s3 import PAGE, store_at


def files_of(server: ScriptedS3) -> Any:
    """s3fs as its users have it."""
    return s3fs.S3FileSystem(
        skip_instance_cache=True,
        use_listings_cache=False,
        endpoint_url=server.endpoint_url,
        key="key",
        secret="secret",
        client_kwargs={"region_name": "us-east-1"},
        config_kwargs={"s3": {"addressing_style": "path"}},
    )


def test_cat_file_would_give_a_web_page_for_an_object() -> None:
    with scripted_s3(PAGE) as server:
        assert files_of(server).cat_file("bucket/cluster/a", start=0, end=100) == PAGE.body
        with pytest.raises(StoreUnavailable, match="does not answer as S3 does"):
            store_at(server).get("a")


def test_find_would_give_an_empty_folder_for_a_web_page() -> None:
    with scripted_s3(PAGE) as server:
        assert files_of(server).find("bucket", prefix="cluster/a", detail=True) == {}
        with pytest.raises(StoreUnavailable, match="does not answer as S3 does"):
            list(store_at(server).list_keys("a"))


class Connections:
    """What s3fs closes at the end of a process."""

    closed = 0

    async def __aexit__(self, *_exc: object) -> None:
        Connections.closed += 1


class LoopOfTheParent:
    """What a fork leaves of an event loop: it looks as if it ran."""

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon_threadsafe(self, *_given: object) -> None:
        raise AssertionError("the loop of the parent was asked")


def test_the_connections_of_a_process_are_not_closed_by_one_that_was_forked_from_it() -> None:
    here = s3fs.S3FileSystem(skip_instance_cache=True).loop
    _S3Files.close_session(here, Connections())
    assert Connections.closed == 1
    _S3Files.close_session(LoopOfTheParent(), Connections())
    assert Connections.closed == 1
