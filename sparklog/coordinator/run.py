"""Run a coordinator until it is asked to stop: the service, and the server in front of it, in one event loop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import uvicorn

from sparklog.coordinator.access.renewed_files import Certificate, RenewedFiles, look_again
from sparklog.coordinator.http.acceptor import Acceptor
from sparklog.coordinator.http.app import app_of
from sparklog.coordinator.http.server_connections import Connections, limits_here
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.page.records.masks import MaskRule
from sparklog.coordinator.watching.emf import MetricTarget, print_metrics
from sparklog.coordinator.watching.sampling import sampling
from sparklog.core.access import JOBS_PRINCIPAL, Access
from sparklog.core.coordination import is_coordinator_address
from sparklog.core.errors import InvalidInput
from sparklog.wire.this_machine import is_this_machine

BACKLOG = 2_048  # connections that wait to be accepted
# Thousands of commands wait at once and are no garbage. With Python's 700, collections took a quarter of the time.
GC_THRESHOLDS = (50_000, 20, 50)


@dataclass(frozen=True)
class Protection:
    """Protection of a coordinator. Without TLS, `certificate` is None; without an access file, `access` is None.

    `masks`: rules for parts of records that pages and replies never have. `jobs_sha256`: with an access file, the hash
    of the token of the jobs that this coordinator starts; None if it gives them none.
    """

    certificate: Certificate | None = None
    access: RenewedFiles[Access] | None = None
    masks: tuple[MaskRule, ...] = ()
    jobs_sha256: str | None = None

    @property
    def current_access(self) -> Callable[[], Access] | None:
        """A function that returns the present principals: those of the access file, and this coordinator's jobs.

        None if there is no access file.
        """
        access, sha256 = self.access, self.jobs_sha256
        if access is None:
            return None
        return lambda: access.value if sha256 is None else access.value.joined(JOBS_PRINCIPAL, sha256)


OPEN = Protection()


def check_exposure(host: str, *, tls: bool, access: bool) -> None:
    """Raise InvalidInput if other machines can reach `host`, but TLS or an access file is missing."""
    missing = [
        option
        for option, given in (("--tls-certificate FILE --tls-key FILE", tls), ("--access FILE", access))
        if not given
    ]
    if missing and not is_this_machine(host):
        raise InvalidInput(
            f"--listen {host}: any caller that reaches it could read the metadata and write: add "
            f"{' and '.join(missing)}, or listen on this machine only (127.0.0.1)"
        )


def advertised_address(advertise: str | None, host: str, port: int, *, tls: bool) -> str:
    """The address to which clients send commands: `advertise`, or `host` and `port` if it is None.

    Raises InvalidInput if `advertise` is malformed or has the wrong scheme (wanted: https with `tls`, else http). Also
    raises it if `advertise` is None and `host` means every address of the machine.
    """
    scheme = "https" if tls else "http"
    if advertise is None:
        if host in ("0.0.0.0", "::"):
            raise InvalidInput(
                f"--listen {host} is every address of this machine: name the one that clients use with "
                f"--advertise {scheme}://HOST:{port}"
            )
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    if not is_coordinator_address(advertise) or not advertise.startswith(f"{scheme}://"):
        raise InvalidInput(f"--advertise: wanted {scheme}://HOST:PORT, found {advertise!r}")
    return advertise


def listening(host: str, port: int) -> socket.socket:
    """Open a socket that listens at this address. Port 0: any free port. Raises InvalidInput if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only for a socket that names its protocol: else each reply takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidInput(f"can't listen at {host}:{port}: {error.strerror}") from error
    return listener


def serve(
    service: Service,
    listener: socket.socket,
    protection: Protection,
    ready: Callable[[], None],
    metric_target: MetricTarget | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT.

    `ready` is called once clients can connect. Metrics are printed to `metric_target`, or nowhere if it is None.
    """
    server = server_of(service, Connections(limits_here()), protection)
    gc.freeze()  # modules and the state stay
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:  # uvloop, if installed
        runner.run(_serve(service, server, listener, protection, ready, metric_target))


def server_of(service: Service, connections: Connections, protection: Protection = OPEN) -> uvicorn.Server:
    """The HTTP server of a coordinator. It does not handle signals: see `_CoordinatorServer`."""
    certificate = protection.certificate
    config = uvicorn.Config(
        app_of(service, protection.current_access, protection.masks),
        http=connections.protocol,  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_level="error",  # a warning for each malformed request would fill the log
        access_log=False,
        proxy_headers=False,  # the audit names the peer itself, not one that the peer claims
        date_header=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )
    config.load()
    config.ssl = None if certificate is None else certificate.context
    return _CoordinatorServer(config, connections)


async def _serve(
    service: Service,
    server: uvicorn.Server,
    listener: socket.socket,
    protection: Protection,
    ready: Callable[[], None],
    metric_target: MetricTarget | None,
) -> None:
    access, certificate = protection.access, protection.certificate
    loop = asyncio.get_running_loop()
    leading = asyncio.create_task(service.run())
    looks = [*([access.look] if access else []), *([certificate.files.look] if certificate else [])]
    looking = asyncio.create_task(look_again(looks))
    beside = [asyncio.create_task(sampling(service))]
    if metric_target is not None:
        beside.append(asyncio.create_task(print_metrics(service, metric_target)))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.stop)
    serving = asyncio.create_task(server.serve([listener]))
    ready()
    await leading  # it has resigned: later requests are sent to the next leader
    server.should_exit = True
    looking.cancel()
    await serving
    for task in beside:
        task.cancel()


class _CoordinatorServer(uvicorn.Server):
    """A server that counts connections from the moment they are accepted, and leaves signals to `_serve`.

    So a coordinator resigns before it stops answering.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections at `sockets`, which already listen."""
        await super().startup(sockets=[])  # uvicorn itself accepts nothing
        new = partial(
            self._connections.protocol,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self.servers = [Acceptor(listener, self._connections, new, self.config.ssl) for listener in sockets or []]  # type: ignore[misc]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
