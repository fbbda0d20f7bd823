"""What this process has open towards S3: one client for each set of settings.

Small requests go through s3fs (control.py), on fsspec's event loop; bulk bodies over plain connections (bulk.py), in
the caller's thread or those of a client, so that neither waits behind the other. Both resolve keys, endpoint and region
in the same places, and send each request exactly once: repeating is the business of whoever knows whether a repeat is
harmless.

All are made anew in each process, also in one that was forked from a process that had them: sockets and event
loops can't be shared.
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
from sparklog.host.fork import after_fork_in_child
from sparklog.storage.s3.answers import sorted_failure
from sparklog.storage.s3.settings import S3Settings

if TYPE_CHECKING:
    from sparklog.storage.s3.bulk import Answer, Place

_TRIES_PER_TIMEOUT: Final = 3  # one silent connection leaves time for another try
_THREADS: Final = 32

Result = TypeVar("Result")


class S3Client:
    """Both ways to S3 for one set of settings in this process. Safe for threads."""

    def __init__(self, settings: S3Settings) -> None:
        """Raises InvalidInput if the machine lacks what it needs, or its places hold something illegal."""
        try_s = settings.timeout_ms / 1000 / _TRIES_PER_TIMEOUT
        try:
            from sparklog.storage.s3.bulk import Bulk
            from sparklog.storage.s3.control import Control
            from sparklog.storage.s3.session import credentials_and_ca_bundle

            self._bulk = Bulk(try_s, *credentials_and_ca_bundle(settings))
            self.control = Control(settings, try_s)
        except ImportError as error:
            raise InvalidInput(
                f"S3 stores need the packages of sparklog's extra 's3' (pip install 'sparklog[s3]'): {error}"
            ) from error
        except InvalidInput:
            raise
        except Exception as error:
            failed = sorted_failure(error)
            raise InvalidInput(f"an S3 client could not be set up: {failed.reason}") from error
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="sparklog-s3")
        self._places: dict[str, Place] = {}

    @property
    def endpoint(self) -> str:
        """The address in use, for messages."""
        return self.control.endpoint

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
    ) -> Answer:
        """The answer to one request whose body, or answer, is bulk: from this thread. Raises Failed."""
        place = self._places.get(bucket) or self._place(bucket)
        return self._bulk.send(method, place, key, deadline, query=query, headers=headers, body=body)

    def in_thread(self, work: Callable[[], Result]) -> concurrent.futures.Future[Result]:
        """Begin `work` in one of this client's threads; it must not wait for another one of them."""
        return self._threads.submit(work)

    def close(self) -> None:
        """End the connections; at the end of the process."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._bulk.close()
        self.control.close()

    def _place(self, bucket: str) -> Place:
        from sparklog.storage.s3.bulk import Place

        return self._places.setdefault(bucket, Place(self.control.signed_url(bucket)))


# What is looked up in the environment belongs to a client as its settings do.
_Surroundings = tuple[S3Settings, tuple[tuple[str, str], ...]]
_clients: dict[_Surroundings, S3Client] = {}
_clients_lock = threading.Lock()
# A client that came by fork is neither used nor closed: its event loop watches sockets by a descriptor that both
# processes share, so closing one here would blind the parent.
_of_parents: list[dict[_Surroundings, S3Client]] = []


def client_of(settings: S3Settings) -> S3Client:
    """This process's client for `settings`, and for what its environment says of AWS now."""
    key = settings, tuple(sorted(each for each in os.environ.items() if each[0].startswith("AWS_")))
    with _clients_lock:
        found = _clients.get(key)
        if found is None:
            found = _clients[key] = S3Client(settings)
        return found


def forget_clients() -> None:
    """Close this process's clients; what is asked next makes new ones."""
    global _clients
    with _clients_lock:
        ended, _clients = _clients, {}
    for client in ended.values():
        client.close()


def _begin_anew() -> None:
    global _clients, _clients_lock
    _of_parents.append(_clients)
    _clients, _clients_lock = {}, threading.Lock()


after_fork_in_child(_begin_anew)
atexit.register(forget_clients)
