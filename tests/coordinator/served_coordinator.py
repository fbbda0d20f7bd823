"""A coordinator behind a real server, in a thread of the test: for clients that speak HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from starlette.types import ASGIApp

from sparklog.chain.follow.follower import Follower
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.run import listening
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store

SESSION_MS = 600_000  # nobody takes over by himself
WAIT_S = 60.0

T = TypeVar("T")


@dataclass
class ServedCoordinator:
    """It leads as soon as it is there, unless another one does."""

    address: str
    service: Service
    app: ASGIApp
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, done in the coordinator's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def served_coordinator(
    metadata: str,
    *,
    port: int = 0,
    leads: bool = True,
    advertised: str | None = None,
    store: ObjectStore | None = None,
    certificate: Path | None = None,
    queued_max: int = 500,
    session_ms: int = SESSION_MS,
) -> Iterator[ServedCoordinator]:
    """One at a free port, for the cluster whose metadata is at this address; with `leads` false it only answers.

    `advertised` is the address that it writes into the chain. `certificate`: a file with key and certificate, for TLS.
    """
    listener = listening("127.0.0.1", port)
    address = f"{'http' if certificate is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
    follower = Follower(store or open_store(metadata))
    follower.open()
    ready = threading.Event()
    made: list[ServedCoordinator] = []

    def say(event: str, text: str) -> None:
        if event in ("leads", "stands-by"):
            ready.set()

    async def serve() -> None:
        service = Service(
            follower, metadata, advertised or address, session_ms=session_ms, queued_max=queued_max, say=say
        )
        app = app_of(service)
        config = uvicorn.Config(app, lifespan="off", log_level="error", access_log=False)
        if certificate is not None:
            config.ssl_certfile = config.ssl_keyfile = str(certificate)
        server = _Server(config)
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()

        def stop() -> None:
            loop.call_soon_threadsafe(stopped.set)
            if threading.current_thread() is not thread:
                thread.join(WAIT_S)

        made.append(ServedCoordinator(address, service, app, loop, stop))
        serving = asyncio.create_task(server.serve([listener]))
        running = asyncio.create_task(service.run()) if leads else None
        while not server.started:
            await asyncio.sleep(0.001)
        if not leads:
            ready.set()
        await stopped.wait()
        service.stop()
        if running is not None:
            await running
        server.should_exit = server.force_exit = True
        await serving
        listener.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="served-coordinator")
    thread.start()
    assert ready.wait(WAIT_S)
    coordinator = made[0]
    try:
        yield coordinator
    finally:
        if thread.is_alive():
            coordinator.stop()
