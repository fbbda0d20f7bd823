"""HTTP clients for S3 side by side: one request per object, 1 MiB and 64 MiB, 1 and 32 at once, and after a fork.

The clients take turns within each round; a client's share is the seconds of the round's best client / its own seconds.
Processor seconds are those of this process, not of the server. Clients that are not installed are left out.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import select
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from bench.paired import Spread
from sparklog.host.deadline import Deadline
from sparklog.storage.s3.client import client_of
from sparklog.storage.s3.settings import read_s3_settings
from tests.servers.run_with import server

MIB = 1 << 20
TRIES = 3  # per object: a server that is short of resources closes connections
ROUNDS = {1: 7, 64: 3}  # by the MiB of an object
FORK_S = 20.0  # a child that has not read an object by then never will
CHILD_S = 900.0
CONFIG: dict[str, Any] = {
    "signature_version": "s3v4",
    "max_pool_connections": 32,
    "request_checksum_calculation": "when_required",
    "response_checksum_validation": "when_required",
    "s3": {"addressing_style": "path", "payload_signing_enabled": False},  # no hash of the body, as with the others
}
Result = TypeVar("Result")


class Client(Protocol):
    """One way to send and to receive an object, each in one request."""

    def put(self, key: str, body: bytes) -> object: ...

    def get(self, key: str, size_bytes: int) -> object: ...


class Sparklog:
    """How sparklog sends bulk bodies: over plain connections."""

    def __init__(self, bucket: str) -> None:
        self._bucket, self._client = bucket, client_of(read_s3_settings({"timeout_ms": "1800000"}))

    def put(self, key: str, body: bytes) -> object:
        self._client.bulk("PUT", self._bucket, key, Deadline(600_000), headers={}, body=body).close()
        return None

    def get(self, key: str, size_bytes: int) -> object:
        deadline = Deadline(600_000)
        into = _memory(size_bytes)
        answer = self._client.bulk("GET", self._bucket, key, deadline, headers={})
        assert answer.read_into(into, deadline) == size_bytes
        answer.close()
        return into


class Urllib3:
    """urllib3 with botocore's signatures, reading into the same memory."""

    def __init__(self, bucket: str) -> None:
        import botocore.session
        import urllib3

        self._server = os.environ["AWS_ENDPOINT_URL"]
        self._bucket = bucket
        self._credentials = botocore.session.Session().get_credentials()
        self._pool = urllib3.PoolManager(maxsize=32).connection_from_url(self._server)

    def put(self, key: str, body: bytes) -> object:
        answer = self._sent("PUT", key, body)
        answer.drain_conn()
        answer.release_conn()
        return None

    def get(self, key: str, size_bytes: int) -> object:
        answer = self._sent("GET", key, None)
        into = _memory(size_bytes)
        at = 0
        while at < size_bytes:
            piece = answer.read1(256 * 1024, decode_content=False)
            into[at : at + len(piece)] = piece
            at += len(piece)
        answer.release_conn()
        return into

    def _sent(self, method: str, key: str, body: bytes | None) -> Any:
        from botocore.awsrequest import AWSRequest

        from sparklog.storage.s3.bulk import _UnsignedBodyAuth

        path = f"/{self._bucket}/{key}"
        request = AWSRequest(method=method, url=f"{self._server}{path}")
        _UnsignedBodyAuth(self._credentials.get_frozen_credentials(), "s3", "us-east-1").add_auth(request)
        answer = self._pool.urlopen(
            method,
            path,
            body=body,
            headers=dict(request.headers.items()),
            timeout=600.0,
            retries=False,
            preload_content=False,
        )
        assert answer.status < 300
        return answer


class Boto3:
    """boto3's client."""

    def __init__(self, bucket: str) -> None:
        import boto3
        from botocore.config import Config

        self._bucket = bucket
        self._client = boto3.session.Session().client("s3", config=Config(**CONFIG))

    def put(self, key: str, body: bytes) -> object:
        return self._client.put_object(Bucket=self._bucket, Key=key, Body=body)

    def get(self, key: str, size_bytes: int) -> object:
        found = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        assert len(found) == size_bytes
        return found


class S3fs:
    """s3fs, on one event loop."""

    def __init__(self, bucket: str) -> None:
        import s3fs

        self._bucket = bucket
        self._files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False, config_kwargs=CONFIG)

    def put(self, key: str, body: bytes) -> object:
        return self._files.pipe_file(f"{self._bucket}/{key}", body)

    def get(self, key: str, size_bytes: int) -> object:
        found = self._files.cat_file(f"{self._bucket}/{key}", start=0, end=size_bytes)
        assert len(found) == size_bytes
        return found


class Obstore:
    """obstore, from threads like the others."""

    def __init__(self, bucket: str) -> None:
        import obstore.store

        self._store = obstore.store.S3Store(
            bucket,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            config={"unsigned_payload": True},
        )

    def put(self, key: str, body: bytes) -> object:
        import obstore

        return obstore.put(self._store, key, body, use_multipart=False)

    def get(self, key: str, size_bytes: int) -> object:
        import obstore

        found = obstore.get_range(self._store, key, start=0, end=size_bytes)
        assert len(found) == size_bytes
        return found


# The name of what must be installed, and of the column.
CLIENTS: dict[str, Callable[[str], Client]] = {
    "sparklog": Sparklog,
    "urllib3": Urllib3,
    "boto3": Boto3,
    "s3fs": S3fs,
    "obstore": Obstore,
}


@dataclass(frozen=True, slots=True)
class Case:
    """What each client does in a turn."""

    method: str
    size_mib: int
    at_once: int
    objects: int

    def __str__(self) -> str:
        return f"{self.method} {self.size_mib} MiB, {self.at_once} at once"


CASES = tuple(
    Case(method, size_mib, at_once, objects)
    for size_mib, at_once, objects in ((1, 1, 32), (1, 32, 128), (64, 1, 2), (64, 32, 32))
    for method in ("PUT", "GET")
)
CASES_OF_A_CHILD = tuple(each for each in CASES if each.size_mib == 1 or each.at_once == 1)


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of one turn."""

    wall: float
    processor: float


def clients() -> Sequence[str]:
    """The lines of the page's section: this machine's clients, on a server of its own."""
    with server("s3") as variables:
        os.environ.update(variables)
        bucket = variables["STORE"].removeprefix("s3://")
        made = {name: make(bucket) for name, make in CLIENTS.items() if find_spec(name)}
        lines = [_row("what", made), "|" + "---|" * (len(made) + 1)]
        for case in CASES:
            lines += _lines(str(case), _rounds(made, case), case, "fails")
        works = [name for name in made if _in_child(lambda name=name: _reads_one(name, bucket), FORK_S)]  # type: ignore[misc]
        of_child = _in_child(lambda: _all_rounds(works, bucket), CHILD_S) or {}
        for case, took in of_child.items():
            found = {name: took.get(name, []) for name in made}
            lines += _lines(f"{case}, forked", found, case, "hangs")
    return lines


def _rounds(made: Mapping[str, Client], case: Case) -> dict[str, list[Took]]:
    """The turns of each client, after one that does not count; none for a client that failed."""
    names = list(made)
    took: dict[str, list[Took]] = {name: [] for name in names}
    failed: set[str] = set()
    for number in range(ROUNDS[case.size_mib] + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if name in failed:
                continue
            try:
                took[name].append(_turn(made[name], case))
            except Exception as error:
                print(f"{case}: {name} failed: {error!r}", flush=True)
                failed.add(name)
    return {name: [] if name in failed else found[1:] for name, found in took.items()}


def _turn(client: Client, case: Case) -> Took:
    size_bytes = case.size_mib * MIB
    body = _body(size_bytes)

    def one(number: int) -> None:
        key = f"{case.size_mib}/{number % case.at_once}"
        for tried in range(1, TRIES + 1):
            try:
                if case.method == "PUT":
                    client.put(key, body)
                else:
                    client.get(key, size_bytes)
                return
            except Exception:
                if tried == TRIES:
                    raise

    _warm(case.at_once, size_bytes)
    with ThreadPoolExecutor(case.at_once) as pool:
        began, processor = time.perf_counter(), time.process_time()
        list(pool.map(one, range(case.objects)))
        return Took(time.perf_counter() - began, time.process_time() - processor)


def _all_rounds(names: Sequence[str], bucket: str) -> dict[Case, dict[str, list[Took]]]:
    made = {name: CLIENTS[name](bucket) for name in names}
    return {case: _rounds(made, case) for case in CASES_OF_A_CHILD}


def _reads_one(name: str, bucket: str) -> bool:
    CLIENTS[name](bucket).get("1/0", MIB)
    return True


def _in_child(work: Callable[[], Result], timeout_s: float) -> Result | None:
    """What `work` returns in a process forked from this one; None if it does not return in time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        ready, _, _ = select.select([pipe], [], [], timeout_s)
        found = pipe.read() if ready else b""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return pickle.loads(found) if found else None  # type: ignore[no-any-return]


def _lines(what: str, took: Mapping[str, Sequence[Took]], case: Case, without: str) -> list[str]:
    mib = case.size_mib * case.objects
    best_s = [
        min(turns) for turns in zip(*([each.wall for each in found] for found in took.values() if found), strict=True)
    ]
    cells = []
    for found in took.values():
        if not found:
            cells.append(without)
            continue
        share = Spread.of([best / each.wall for best, each in zip(best_s, found, strict=True)])
        speed = mib / statistics.median(each.wall for each in found)
        processor_ms = statistics.median(each.processor for each in found) * 1000 / mib
        cells.append(f"{share.shown()} ({speed:.0f} MiB/s, {processor_ms:.2f} ms)")
    line = _row(what, cells)
    print(line, flush=True)
    return [line]


def _row(what: str, cells: Sequence[str] | Mapping[str, object]) -> str:
    return f"| {what} | {' | '.join(cells)} |"


@functools.cache
def _body(size_bytes: int) -> bytes:
    return os.urandom(size_bytes)


def _warm(count: int, size_bytes: int) -> None:
    """Give Arrow's pool the pages that a turn needs, as in a process that has read before, for every client alike."""
    buffers = [pa.allocate_buffer(size_bytes) for _ in range(count)]
    for each in buffers:
        ctypes.memset(each.address, 0, size_bytes)


def _memory(size_bytes: int) -> memoryview:
    return memoryview(pa.allocate_buffer(size_bytes)).cast("B")
