"""Run a coordinator until it is told to stop: the service, and the server in front of it, in one event loop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from sparklog.coordinator.app import app_of
from sparklog.coordinator.connections import Connections, limits_here
from sparklog.coordinator.service import Service
from sparklog.core.errors import InvalidInput

BACKLOG = 2_048  # connections that wait to be accepted
# Thousands of commands wait at once and are no garbage. With Python's 700 a quarter of the time went into looking.
GC_THRESHOLDS = (50_000, 20, 50)
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
    server = server_of(service, Connections(limits_here()))
    gc.freeze()  # modules and the state: they stay
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:  # uvloop, where there is one
        runner.run(_serve(service, server, listener, ready))


def server_of(service: Service, connections: Connections) -> uvicorn.Server:
    """The HTTP server of a coordinator. It leaves signals alone."""
    config = uvicorn.Config(
        app_of(service),
        http=connections.protocol,  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_level="error",  # a warning for each malformed request would fill the log
        access_log=False,
        proxy_headers=False,
        date_header=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )
    return _Server(config)


async def _serve(service: Service, server: uvicorn.Server, listener: socket.socket, ready: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    leading = asyncio.create_task(service.run())

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.stop)
    serving = asyncio.create_task(server.serve([listener]))
    ready()
    await leading  # it has resigned: whoever asks from now on is sent to the next one
    server.should_exit = True
    await serving


class _Server(uvicorn.Server):
    """Leaves the signals to `_serve`: a coordinator resigns before it stops to answer."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
