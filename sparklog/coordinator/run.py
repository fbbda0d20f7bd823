"""Run a coordinator until it is told to stop: the service, and the server in front of it, in one event loop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from sparklog.coordinator.app import app_of
from sparklog.coordinator.sampling import sampling
from sparklog.coordinator.service import Service
from sparklog.core.errors import InvalidInput

BACKLOG = 2_048  # connections that wait to be accepted
_LOCAL = ("127.0.0.1", "::1", "localhost")


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at this address; with port 0 the system chooses one. Raises InvalidInput."""
    if host not in _LOCAL:
        raise InvalidInput(
            f"a coordinator listens on this machine only ({', '.join(_LOCAL)}), found {host}: without TLS and tokens, "
            "which this version does not have, everybody who reaches it could write"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidInput(f"can't listen at {host}:{port}: {error.strerror}") from error
    return listener


def serve(service: Service, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is called once it answers."""
    asyncio.run(_serve(service, listener, ready))


async def _serve(service: Service, listener: socket.socket, ready: Callable[[], None]) -> None:
    config = uvicorn.Config(
        app_of(service),
        http="httptools",
        lifespan="off",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()
    leading = asyncio.create_task(service.run())
    samples = asyncio.create_task(sampling(service))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.stop)
    serving = asyncio.create_task(server.serve([listener]))
    ready()
    await leading  # it has resigned: whoever asks from now on is sent to the next one
    server.should_exit = True
    await serving
    samples.cancel()


class _Server(uvicorn.Server):
    """Leaves the signals to `_serve`: a coordinator resigns before it stops to answer."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
