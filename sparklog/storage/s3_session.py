"""Sessions of botocore and aiobotocore as S3 clients need them. Imported only where a client is built."""

from __future__ import annotations

from functools import cache
from typing import Any

import botocore.loaders
import botocore.session
from aiobotocore.httpsession import AIOHTTPSession
from aiobotocore.session import AioSession


def new_session(profile: str | None) -> botocore.session.Session:
    """A session whose clients share the parsed description of S3: reading it takes longer than all the rest."""
    return _with_shared_loader(botocore.session.Session(profile=profile))


def new_async_session(profile: str | None) -> AioSession:
    """The same for aiobotocore, and so for s3fs."""
    return _with_shared_loader(AioSession(profile=profile))


def _with_shared_loader(session: Any) -> Any:
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    return session


@cache
def _loader(data_path: str | None) -> botocore.loaders.Loader:
    return botocore.loaders.create_loader(data_path)


class SendOnceSession(AIOHTTPSession):  # type: ignore[misc]
    """Sends each request once.

    aiohttp repeats a PUT by itself when a kept connection was closed before the answer came: the first one may have
    been done, and the second then finds the key taken by its own object.
    """

    async def _get_session(self, proxy_url: str | None) -> Any:
        session = await super()._get_session(proxy_url)
        session._retry_connection = False
        return session
