"""A coordinator behind a real HTTP server, in the event loop of a test, and clients that send bytes to it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import uvicorn

from sparklog.chain.commit.committer import new_command_id
from sparklog.coordinator.http.connection_table import ConnectionLimits
from sparklog.coordinator.http.server_connections import Connections
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.run import OPEN, Protection, server_of
from sparklog.core.commands import Submission
from sparklog.core.records import CommandResult
from sparklog.core.types import EntryNumber
from sparklog.wire.error_messages import ErrorReply
from sparklog.wire.messages import SUBMIT, SubmitReply, SubmitRequest, SubmittedCommand
from tests.chain.chain_kit import TIMEOUT_MS, Member, append, member

T = TypeVar("T")


@dataclass
class Client:
    """One connection. The names say what a client does that behaves badly."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def reply(self) -> tuple[int, dict[str, str], bytes]:
        """The status, headers and body of the next reply."""
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        return int(first.split()[1]), headers, await self.reader.readexactly(int(headers["content-length"]))

    async def error(self) -> tuple[int, str]:
        """The status of the next reply, and the code in it."""
        status, _, body = await self.reply()
        return status, msgspec.msgpack.decode(body, type=ErrorReply).code

    async def end(self) -> bytes:
        """What still comes before the server closes the connection."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""

    def vanish(self) -> None:
        self.writer.transport.abort()


@dataclass
class Served:
    """A coordinator that leads, and how its connections are."""

    chain: Member
    service: Service
    connections: Connections
    port: int
    server: uvicorn.Server
    clients: list[Client] = field(default_factory=list)

    async def connect(self, receive_buffer: int | None = None, tls: ssl.SSLContext | None = None) -> Client:
        """A new connection. With `tls` it makes the handshake; without, it never does."""
        client = socket.socket()
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.port))
        how = {} if tls is None else {"ssl": tls, "server_hostname": "localhost"}
        made = Client(*await asyncio.open_connection(sock=client, **how))  # type: ignore[arg-type]
        self.clients.append(made)
        return made

    def submit_request(self, records: int = 1) -> bytes:
        """A whole request to append."""
        n = EntryNumber(self.chain.follower.head.n)
        command = SubmittedCommand(Submission(new_command_id(), n, append(records)), TIMEOUT_MS)
        body = msgspec.msgpack.encode(SubmitRequest(self.chain.follower.state.chain_id, n, (command,)))
        return head("POST", SUBMIT, f"content-length: {len(body)}") + body

    async def commit(self, client: Client, count: int = 1) -> None:
        """Commit so many appends, one after the other, as an honest client does."""
        for _ in range(count):
            client.send(self.submit_request())
            await committed(client)

    def later(self, seconds: float) -> None:
        """Drop the connections whose time will be over then."""
        self.connections.sweep(asyncio.get_running_loop().time() + seconds)

    async def until(self, happened: Callable[[], bool]) -> None:
        """Let the loop run until this is so."""
        async with asyncio.timeout(60):
            while not happened():
                await asyncio.sleep(0.01)


async def committed(client: Client) -> CommandResult:
    """The result of the command that is answered next."""
    status, _, body = await client.reply()
    assert status == 200, body
    (outcome,) = msgspec.msgpack.decode(body, type=SubmitReply).outcomes
    assert outcome.result is not None, outcome
    return outcome.result


def head(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *headers, "", ""]).encode()


def served(
    chain: Member,
    limits: ConnectionLimits,
    work: Callable[[Served], Awaitable[T]],
    protection: Protection = OPEN,
) -> T:
    """Run `work` against a server with these limits, once it leads."""

    async def run() -> T:
        process = member(chain.store.inner)
        leading = asyncio.Event()

        def say(event: str, text: str) -> None:
            if event == "leads":
                leading.set()

        service = Service(
            process.follower, process.store.url, "http://me:7400", session_ms=60_000, queued_max=100, say=say
        )
        connections = Connections(limits)
        with socket.create_server(("127.0.0.1", 0), backlog=2_048) as listener:
            server = server_of(service, connections, protection)
            here = Served(chain, service, connections, listener.getsockname()[1], server)
            running = asyncio.create_task(service.run())
            serving = asyncio.create_task(server.serve([listener]))
            try:
                await asyncio.wait_for(leading.wait(), 60)
                return await asyncio.wait_for(work(here), 90)  # type: ignore[arg-type]
            finally:
                for client in here.clients:
                    client.vanish()
                service.stop()
                await running
                server.should_exit = True
                await serving

    return asyncio.run(run())
