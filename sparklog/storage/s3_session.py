"""aiobotocore's HTTP session, without the repeat that aiohttp hides in it. Imported only where a client is built."""

from __future__ import annotations

from typing import Any

from aiobotocore.httpsession import AIOHTTPSession


class SendOnceSession(AIOHTTPSession):  # type: ignore[misc]
    """Sends each request once.

    aiohttp repeats a PUT by itself when a kept connection was closed before the answer came: the first one may have
    been done, and the second then finds the key taken by its own object.
    """

    async def _get_session(self, proxy_url: str | None) -> Any:
        session = await super()._get_session(proxy_url)
        session._retry_connection = False
        return session
