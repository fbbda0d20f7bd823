"""A proxy on loopback for any TCP server, which a test cuts, holds up or makes lose what the server says.

with TcpProxy() as proxy:                 # clients use proxy.port
    proxy.upstream = ("127.0.0.1", 7400)
    proxy.mode = Mode.SILENT
"""

from __future__ import annotations

import asyncio
import threading
from enum import Enum, auto
from types import TracebackType

from tests.servers.fault_proxy import cut

CLOSING_S = 10
PIECE = 64 * 1024


class Mode(Enum):
    """What happens to bytes. A change concerns connections that are open, too."""

    OPEN = auto()
    CUT = auto()  # connections are reset, new ones too
    SILENT = auto()  # nothing arrives in either direction, until the mode changes
    DELAYED = auto()  # every piece arrives `delay_ms` late
    REPLY_LOST = auto()  # requests arrive; where the server would answer, the connection is reset


class TcpProxy:
    """Runs in a thread with an event loop of its own, from the start of the `with` block to its end.

    `mode`, `delay_ms` and `upstream` may be set from any thread.
    """

    def __init__(self) -> None:
        self.upstream = ("127.0.0.1", 0)
        self.port = 0
        self.delay_ms = 200.0
        self._mode = Mode.OPEN
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._connections: dict[asyncio.Future[None], asyncio.StreamWriter] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        assert self._loop is not None
        self._mode = mode
        self._loop.call_soon_threadsafe(self._apply)

    def __enter__(self) -> TcpProxy:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), name="tcp-proxy", daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(CLOSING_S)
        assert not self._thread.is_alive(), f"the proxy did not end in {CLOSING_S} s"

    def _apply(self) -> None:
        """Let what waits for another mode look again; with CUT, end all connections."""
        self._changed.set()
        self._changed = asyncio.Event()
        if self._mode is Mode.CUT:
            for task in self._connections:
                task.cancel()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._mode is Mode.CUT:
                return cut(writer)
            task = asyncio.ensure_future(self._connection(reader, writer))
            self._connections[task] = writer
            task.add_done_callback(lambda done: cut(self._connections.pop(done)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._ended.wait()
        server.close()
        for task in [*self._connections]:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server = await asyncio.open_connection(*self.upstream)
        except OSError:
            return
        directions = [
            asyncio.ensure_future(self._pass_on(reader, server, is_reply=False)),
            asyncio.ensure_future(self._pass_on(server_reader, writer, is_reply=True)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            server.transport.abort()  # before the wait, which may be cancelled
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _pass_on(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, *, is_reply: bool) -> None:
        """Pass bytes on until one side leaves, or a lost reply ends it."""
        while piece := await source.read(PIECE):
            while self._mode is Mode.SILENT:
                await self._changed.wait()
            if self._mode is Mode.REPLY_LOST and is_reply:
                return
            if self._mode is Mode.DELAYED:
                await asyncio.sleep(self.delay_ms / 1000)
            to.write(piece)
            await to.drain()
