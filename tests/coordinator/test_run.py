"""The socket of a coordinator."""

from __future__ import annotations

import asyncio
import socket

from sparklog.coordinator.run import listening


def test_replies_are_not_held_back_until_the_client_has_acknowledged_their_beginning() -> None:
    async def nagle_of_an_accepted_connection() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            found.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(accepted, sock=listening("127.0.0.1", 0)) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            no_delay = await found
            writer.close()
        return no_delay

    assert asyncio.run(nagle_of_an_accepted_connection()) == 1
