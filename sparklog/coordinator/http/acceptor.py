"""Accepts the connections of a coordinator, and counts each from then on, even before its TLS handshake.

uvicorn counts a connection only after its TLS handshake, so connections that never complete one could use up all files
that the process may open. Here accepting stops at the limit, and further connections wait in the listener's backlog.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from sparklog.coordinator.http.server_connections import Connections, ServerConnection

AT_ONCE: Final = 64  # connections accepted before the event loop turns to other work
RETRY_S: Final = 0.1  # the pause before another attempt to accept a connection
_log = logging.getLogger("sparklog.coordinator")


class Acceptor:
    """Accepts connections at `listener`, which stays the caller's, until `close` is called.

    `protocol` creates the protocol of a connection. Without TLS, `context` is None. To be used in one event loop.
    """

    def __init__(
        self,
        listener: socket.socket,
        connections: Connections,
        protocol: Callable[[], ServerConnection],
        context: ssl.SSLContext | None,
    ) -> None:
        self._listener = listener
        self._connections = connections
        self._protocol = protocol
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._paused: asyncio.TimerHandle | None = None
        self._handshakes: set[asyncio.Task[object]] = set()
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept no further connection, and end those whose handshake is not complete."""
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._listener)
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until the connections that `close` has ended are gone."""
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            admission = self._connections.admission(self._loop.time())
            if admission is None:
                self._pause()
                return
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # too many open files, or no memory for another
                self._connections.report_failure(error, self._loop.time())
                self._pause()
                return
            connection = self._protocol()
            self._connections.enter(connection, admission, self._loop)
            handshake = self._loop.create_task(self._shake_hands(connection, accepted))
            connection.handshake = handshake
            self._handshakes.add(handshake)
            handshake.add_done_callback(partial(self._handshake_ended, connection, accepted))

    def _pause(self) -> None:
        self._loop.remove_reader(self._listener)
        self._paused = self._loop.call_later(RETRY_S, self._resume)

    def _resume(self) -> None:
        self._paused = None
        self._loop.add_reader(self._listener, self._accept)

    async def _shake_hands(self, connection: ServerConnection, accepted: socket.socket) -> object:
        """Make the TLS handshake. Its time limit is that of the table of connections."""
        accepted.setblocking(False)
        return await self._loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._context)

    def _handshake_ended(
        self, connection: ServerConnection, accepted: socket.socket, task: asyncio.Task[object]
    ) -> None:
        self._handshakes.discard(task)
        connection.handshake = None
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._connections.table.leave(connection)
            accepted.close()
        if error is not None and not isinstance(error, OSError):  # a failed handshake is one
            _log.error("a new connection failed", exc_info=error)
