"""This process's S3 clients: one for each set of settings.

Writes and reads of objects go over plain connections (bulk.py), in the caller's thread or in a thread of the client.
Each of these requests is sent exactly once: only the caller knows whether it is safe to repeat. Other requests go
through s3fs (small_requests.py), on fsspec's event loop. Both use the same keys, endpoint and region.

Each process makes its own clients. A forked process does not use its parent's, because sockets and event loops can't be
shared.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from sparklog.core.errors import InvalidInput
from sparklog.host.deadline import Deadline
from sparklog.host.extras import needed
from sparklog.host.fork import after_fork_in_child
from sparklog.storage.s3.answers import sorted_failure
from sparklog.storage.s3.settings import S3Settings

if TYPE_CHECKING:
    from sparklog.storage.s3.bulk import BulkAnswer, Place

_TRIES_PER_TIMEOUT: Final = 3  # so that a silent connection leaves time for another try
_THREADS: Final = 32

Result = TypeVar("Result")


class S3Client:
    """Small requests and bulk bodies to S3, for one set of settings in this process. Thread-safe."""

    def __init__(self, settings: S3Settings) -> None:
        """Set up the clients for bulk and small requests.

        Raises InvalidInput if packages are missing or this machine's S3 configuration is illegal.
        """
        try_s = settings.timeout_ms / 1000 / _TRIES_PER_TIMEOUT
        try:
            with needed("s3", "a store on S3"):
                from sparklog.storage.s3.aws_session import credentials_and_ca_bundle
                from sparklog.storage.s3.bulk import Bulk
                from sparklog.storage.s3.small_requests import SmallRequests

            self._bulk = Bulk(try_s, *credentials_and_ca_bundle(settings))
            self.small_requests = SmallRequests(settings, try_s)
        except InvalidInput:
            raise
        except Exception as error:
            failed = sorted_failure(error)
            raise InvalidInput(f"an S3 client could not be set up: {failed.reason}") from error
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="sparklog-s3")
        self._places: dict[str, Place] = {}

    @property
    def endpoint(self) -> str:
        """The endpoint in use, for messages."""
        return self.small_requests.endpoint

    def bulk(
        self,
        method: str,
        bucket: str,
        key: str,
        deadline: Deadline,
        *,
        query: dict[str, str] | None = None,
        headers: dict[str, str],
        body: bytes | bytearray | None = None,
    ) -> BulkAnswer:
        """Send one request with a bulk body or a bulk answer, from the calling thread. Raises S3RequestFailed."""
        place = self._places.get(bucket) or self._place(bucket)
        return self._bulk.send(method, place, key, deadline, query=query, headers=headers, body=body)

    def in_thread(self, work: Callable[[], Result]) -> concurrent.futures.Future[Result]:
        """Run `work` in one of this client's threads. `work` must not wait for another of these threads."""
        return self._threads.submit(work)

    def close(self) -> None:
        """Close the connections, at the end of the process."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._bulk.close()
        self.small_requests.close()

    def _place(self, bucket: str) -> Place:
        from sparklog.storage.s3.bulk import Place

        return self._places.setdefault(bucket, Place(self.small_requests.signed_url(bucket)))


# A client also depends on the environment variables that botocore looks up.
_Surroundings = tuple[S3Settings, tuple[tuple[str, str], ...]]
_clients: dict[_Surroundings, S3Client] = {}
_clients_lock = threading.Lock()
# Clients inherited by a fork are neither used nor closed. Their event loop watches sockets through a descriptor that
# both processes share: closing one here would break the parent's.
_of_parents: list[dict[_Surroundings, S3Client]] = []


def client_of(settings: S3Settings) -> S3Client:
    """Return this process's client for `settings` and the current AWS environment variables."""
    key = settings, tuple(sorted(variable for variable in os.environ.items() if variable[0].startswith("AWS_")))
    with _clients_lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = S3Client(settings)
        return client


def forget_clients() -> None:
    """Close this process's clients. A store first used later gets a new one; a store in use must be opened again."""
    global _clients
    with _clients_lock:
        ended, _clients = _clients, {}
    for client in ended.values():
        client.close()


def _reset_after_fork() -> None:
    global _clients, _clients_lock
    _of_parents.append(_clients)
    _clients, _clients_lock = {}, threading.Lock()


after_fork_in_child(_reset_after_fork)
atexit.register(forget_clients)
