"""Connections of this process to S3 endpoints, and one request with a deadline.

Control requests (small bodies, conditions, listings) go through s3fs's client, on fsspec's event loop. Bulk bodies go
through the botocore client that it builds upon, in the caller's thread or those of this module, so that neither waits
behind the other; ranged reads and parts only are signed by its means, see s3_wire.py. All resolve keys,
endpoint and region in the same places, and send each request exactly once: repeating is the business of who knows
whether a repeat is harmless.

All are made anew in each process, also in one that was forked from a process that had them: sockets and event
loops can't be shared.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from sparklog.core.errors import InvalidInput
from sparklog.storage.deadline import Deadline
from sparklog.storage.s3_answers import sorted_failure
from sparklog.storage.s3_settings import S3Settings, check_endpoint
from sparklog.storage.s3_wire import Answer, Wire

_CONNECT_TIMEOUT_S: Final = 5.0
_TRIES_PER_TIMEOUT: Final = 3  # one silent connection leaves time for another try
_POOL: Final = 32  # connections, and threads, of the bulk client
_GRACE_S: Final = 1.0  # how much later than its own deadline a request may end

Result = TypeVar("Result")


class S3Client:
    """The clients for one set of settings in this process. Safe for threads; built by the first request."""

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        self._try_s = settings.timeout_ms / 1000 / _TRIES_PER_TIMEOUT
        self._lock = threading.Lock()
        self._bulk: Any = None
        self._wire: Wire | None = None
        self._credentials: Any = None
        self._places: dict[str, tuple[str, str]] = {}
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None
        self._loop: Any = None
        self._file_system: Any = None  # keeps s3fs's client
        self._control: Any = None

    @property
    def endpoint(self) -> str:
        """The address in use, for messages."""
        for client in (self._bulk, self._control):
            if client is not None:
                return str(client.meta.endpoint_url)
        return self._settings.endpoint_url or "S3"

    def prepare(self) -> None:
        """Make what every process needs. Raises InvalidInput."""
        self._control_client()

    def control(self, operation: str, deadline: Deadline, **parameters: object) -> dict[str, Any]:
        """The answer to one request with a small body. Raises Failed, at the latest at the deadline."""
        client = self._control_client()
        left_s = min(deadline.left_s(), self._try_s)

        async def request() -> dict[str, Any]:
            answer: dict[str, Any] = await asyncio.wait_for(getattr(client, operation)(**parameters), left_s)
            return answer

        future = asyncio.run_coroutine_threadsafe(request(), self._loop)
        try:
            return future.result(left_s + _GRACE_S)
        except Exception as error:
            future.cancel()
            raise sorted_failure(error) from error

    def bulk(self, operation: str, **parameters: object) -> dict[str, Any]:
        """The answer to one request, sent from this thread. Raises Failed. Its waits are bounded one by one."""
        try:
            answer: dict[str, Any] = getattr(self._bulk_client(), operation)(**parameters)
        except Exception as error:
            raise sorted_failure(error) from error
        return answer

    def stream(
        self,
        method: str,
        bucket: str,
        key: str,
        deadline: Deadline,
        *,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        body: bytes | bytearray | None = None,
    ) -> Answer:
        """The answer to one request whose body, or answer, is bulk: from this thread, and not parsed. Raises Failed."""
        self._bulk_client()
        assert self._wire is not None
        try:
            url, signed = self._signed(method, bucket, key, query or {}, headers or {})
        except Exception as error:
            raise sorted_failure(error) from error
        return self._wire.send(method, url, deadline, signed, body)

    def in_thread(self, work: Callable[[], Result]) -> concurrent.futures.Future[Result]:
        """Begin `work` in one of this client's threads; it must not wait for another one of them."""
        self._bulk_client()
        assert self._threads is not None
        return self._threads.submit(work)

    def _signed(
        self, method: str, bucket: str, key: str, query: dict[str, str], headers: dict[str, str]
    ) -> tuple[str, dict[str, str]]:
        """The address, and all headers, of a request whose body is not signed (it bears checksums of its own)."""
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import NoCredentialsError

        from sparklog.storage.s3_signature import UnsignedBodyAuth

        base, region = self._places.get(bucket) or self._place_of(bucket)
        if self._credentials is None:
            raise NoCredentialsError
        url = f"{base}{quote(key, safe='/')}"
        if query:
            url += f"?{urlencode(query, quote_via=quote, safe='')}"
        request = AWSRequest(method=method, url=url, headers=headers)
        UnsignedBodyAuth(self._credentials.get_frozen_credentials(), "s3", region).add_auth(request)
        return url, dict(request.headers.items())

    def _place_of(self, bucket: str) -> tuple[str, str]:
        """(the address of its empty key, the region to sign for), as botocore's rules find them."""
        url = self._bulk.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
        parts = urlsplit(url)
        region = parse_qs(parts.query)["X-Amz-Credential"][0].split("/")[-3]
        found = f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('k')}", region
        self._places[bucket] = found
        return found

    def _bulk_client(self) -> Any:
        if self._bulk is None:
            with self._lock:
                if self._bulk is None:
                    self._threads = concurrent.futures.ThreadPoolExecutor(_POOL, thread_name_prefix="sparklog-s3")
                    self._bulk = _configured(self._new_bulk)  # the last: whoever sees it uses the others
        return self._bulk

    def _control_client(self) -> Any:
        if self._control is None:
            with self._lock:
                if self._control is None:
                    self._control = _configured(self._new_control)
        return self._control

    def _new_bulk(self) -> Any:
        import botocore.config
        from botocore.credentials import Credentials

        from sparklog.storage.s3_session import new_session

        settings = self._settings
        session = new_session(settings.profile)
        ca_bundle = _ca_bundle(session)
        client = session.create_client(
            "s3",
            region_name=settings.region,
            endpoint_url=settings.endpoint_url,
            aws_access_key_id=settings.access_key_id,
            aws_secret_access_key=settings.secret_access_key,
            aws_session_token=settings.session_token,
            # While a body is sent the time to connect is the limit that holds.
            config=botocore.config.Config(
                signature_version="s3v4", **self._config(session, connect_timeout_s=self._try_s)
            ),
        )
        _send_bodies_at_once(client)
        self._wire = Wire(self._try_s, ca_bundle)
        if settings.access_key_id:
            self._credentials = Credentials(settings.access_key_id, settings.secret_access_key, settings.session_token)
        else:
            self._credentials = session.get_credentials()
        return client

    def _new_control(self) -> Any:
        import fsspec.asyn
        import s3fs

        from sparklog.storage.s3_session import SendOnceSession, new_async_session

        settings = self._settings
        session = new_async_session(settings.profile)
        _ca_bundle(session)
        loop = self._loop = fsspec.asyn.get_loop()

        async def connect() -> tuple[Any, Any]:
            file_system = s3fs.S3FileSystem(
                asynchronous=True,
                loop=loop,
                skip_instance_cache=True,
                use_listings_cache=False,
                endpoint_url=settings.endpoint_url,
                key=settings.access_key_id,
                secret=settings.secret_access_key,
                token=settings.session_token,
                client_kwargs={"region_name": settings.region} if settings.region else {},
                config_kwargs={
                    **self._config(session, min(_CONNECT_TIMEOUT_S, self._try_s)),
                    "http_session_cls": SendOnceSession,
                },
                session=session,
            )
            return file_system, await file_system.set_session()

        self._file_system, client = asyncio.run_coroutine_threadsafe(connect(), loop).result()
        _send_bodies_at_once(client)
        return client

    def _config(self, session: Any, connect_timeout_s: float) -> dict[str, Any]:
        return {
            "connect_timeout": connect_timeout_s,
            "read_timeout": self._try_s,
            "retries": {"mode": "standard", "total_max_attempts": 1},
            "max_pool_connections": _POOL,
            # Bodies bear checksums of their own; a second one costs a third of the speed, and older servers refuse it.
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
            "s3": self._addressing(session),
        }

    def _addressing(self, session: Any) -> dict[str, str]:
        """Path style for endpoints that are not AWS's, where names of buckets are seldom names of hosts."""
        chosen = self._settings.path_style
        if chosen is None:
            if (session.get_scoped_config().get("s3") or {}).get("addressing_style"):
                return {}
            endpoint = self._settings.endpoint_url or _endpoint_of(session)
            host = (urlsplit(endpoint).hostname or "") if endpoint else ""
            if not host or host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
                return {}
            chosen = True
        return {"addressing_style": "path" if chosen else "virtual"}

    async def _close(self) -> None:
        await self._file_system._s3creator.__aexit__(None, None, None)

    def close(self) -> None:
        """End the connections; at the end of the process."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self._bulk is not None:
            self._bulk.close()
        if self._wire is not None:
            self._wire.close()
        if self._file_system is not None and self._loop.is_running():
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_GRACE_S)


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


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(forget_clients)


def _configured(build: Callable[[], Any]) -> Any:
    """A client; InvalidInput if the machine lacks what it needs, or its places hold something illegal."""
    try:
        return build()
    except ImportError as error:
        raise InvalidInput(
            f"S3 stores need the packages of sparklog's extra 's3' (pip install 'sparklog[s3]'): {error}"
        ) from error
    except InvalidInput:
        raise
    except Exception as error:
        failed = sorted_failure(error)
        raise InvalidInput(f"an S3 client could not be set up: {failed.reason}") from error


def _endpoint_of(session: Any) -> str | None:
    """The endpoint in AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile."""
    from botocore.configprovider import ConfiguredEndpointProvider

    found = ConfiguredEndpointProvider(
        full_config=session.full_config, scoped_config=session.get_scoped_config(), client_name="s3"
    ).provide()
    if found is None:
        return None
    check_endpoint(str(found), "AWS_ENDPOINT_URL")
    return str(found)


def _ca_bundle(session: Any) -> str | None:
    """The file of AWS_CA_BUNDLE or of the profile, tried here: a request would only fail without naming it."""
    path: str | None = session.get_config_variable("ca_bundle")
    if path:
        try:
            ssl.create_default_context(cafile=path)
        except OSError as error:  # also of ssl
            found = "no certificate in it" if isinstance(error, ssl.SSLError) else error.strerror
            raise InvalidInput(
                f"ca_bundle (AWS_CA_BUNDLE or the profile): wanted a file of certificates in PEM, found {path}: {found}"
            ) from error
    return path


def _send_bodies_at_once(client: Any) -> None:
    """Without `Expect: 100-continue`, for which a client may wait for ever."""
    from botocore.handlers import add_expect_header

    client.meta.events.unregister("before-call.s3", add_expect_header)
