"""Real S3 servers for tests: processes of their own on 127.0.0.1, on free ports, gone with the `with`."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.servers.local_server import ATTEMPTS, LocalServer, free_port, running
from tests.servers.maven import SHORT_LIVED_JVM, fetch_jars, java

S3PROXY = "org.gaul:s3proxy:4.1.0:jar-with-dependencies"
ACCESS_KEY_ID = "test-access-key"
SECRET_ACCESS_KEY = "test-secret-key"


@dataclass
class S3Server(LocalServer):
    """A running S3 server."""

    secret_access_key: str = SECRET_ACCESS_KEY

    @property
    def settings(self) -> dict[str, str]:
        """What `open_store` needs to know, except the address."""
        return {
            "endpoint_url": self.endpoint_url,
            "region": "us-east-1",
            "access_key_id": ACCESS_KEY_ID,
            "secret_access_key": self.secret_access_key,
        }

    @property
    def variables(self) -> dict[str, str]:
        """The same as environment variables of AWS's tools."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
        }

    def new_bucket(self) -> str:
        """Makes a bucket and gives its name."""
        bucket = f"b-{uuid.uuid4().hex}"
        client = _botocore_session().create_client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=self.secret_access_key,
        )
        try:
            client.create_bucket(Bucket=bucket)
        finally:
            client.close()
        return bucket


@cache
def _botocore_session() -> Any:
    """One for all: each reads a megabyte of descriptions anew."""
    import botocore.session

    return botocore.session.Session(profile=None)


def s3proxy_jar() -> Path:
    """The JAR of S3Proxy with all that it needs. Raises CannotFetch."""
    (jar,) = fetch_jars("s3proxy", [S3PROXY])
    return jar


@contextmanager
def s3proxy(secret_access_key: str = SECRET_ACCESS_KEY, *, any_token: bool = False) -> Iterator[S3Server]:
    """S3Proxy on files in a temporary directory: they outlive a `kill` of the server. Raises CannotFetch.

    `any_token`: it takes a session token, which it does not know, for nothing instead of refusing it.
    """
    jar = s3proxy_jar()
    with tempfile.TemporaryDirectory(prefix="sparklog-s3proxy-") as work:
        for _ in range(ATTEMPTS):
            port = free_port()
            Path(work, "files").mkdir(exist_ok=True)
            config = Path(work, "s3proxy.conf")
            config.write_text(
                "\n".join(
                    [
                        "s3proxy.authorization=aws-v2-or-v4",
                        f"s3proxy.endpoint=http://127.0.0.1:{port}",
                        f"s3proxy.identity={ACCESS_KEY_ID}",
                        f"s3proxy.credential={secret_access_key}",
                        "jclouds.provider=filesystem-nio2",
                        "jclouds.identity=unused",
                        "jclouds.credential=unused",
                        f"jclouds.filesystem.basedir={work}/files",
                        "s3proxy.v4-max-non-chunked-request-size=134217728",
                        f"s3proxy.ignore-unknown-headers={str(any_token).lower()}",
                    ]
                )
            )
            command = [java(), "-Xmx512m", *SHORT_LIVED_JVM, "-jar", str(jar), "--properties", str(config)]
            with running(S3Server, command, dict(os.environ), port, Path(work, "log")) as server:
                if server is not None:
                    server.secret_access_key = secret_access_key
                    yield server
                    return
        raise RuntimeError("S3Proxy did not start")


@contextmanager
def ministack() -> Iterator[S3Server]:
    """MiniStack: everything in memory."""
    with tempfile.TemporaryDirectory(prefix="sparklog-ministack-") as work:
        for _ in range(ATTEMPTS):
            port = free_port()
            environment = {
                **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
                "BIND_HOST": "127.0.0.1",
                "GATEWAY_PORT": str(port),
                "SERVICES": "s3",
                "LOG_LEVEL": "ERROR",
                "TMPDIR": work,
                "HOME": work,
            }
            command = [sys.executable, "-m", "ministack"]
            with running(S3Server, command, environment, port, Path(work, "log")) as server:
                if server is not None:
                    yield server
                    return
        raise RuntimeError("MiniStack did not start")


@contextmanager
def ignoring_conditions() -> Iterator[S3Server]:
    """Moto as it comes, with a line that forgets `If-None-Match`: it answers 200 to every writer."""
    with _moto("ignoring") as server:
        yield server


@contextmanager
def looking_first() -> Iterator[S3Server]:
    """Moto with a line that looks for the key before it receives the body: sound for one writer, racy for more."""
    with _moto("looking") as server:
        yield server


@contextmanager
def moto() -> Iterator[S3Server]:
    """Moto behind one lock, without which it races."""
    with _moto("locked") as server:
        yield server


@contextmanager
def _moto(mode: str) -> Iterator[S3Server]:
    with tempfile.TemporaryDirectory(prefix="sparklog-moto-") as work:
        for _ in range(ATTEMPTS):
            port = free_port()
            command = [sys.executable, "-W", "ignore", "-m", "tests.servers.moto_process", mode, str(port)]
            root = str(Path(__file__).parents[2])
            with running(S3Server, command, {**os.environ, "PYTHONPATH": root}, port, Path(work, "log")) as server:
                if server is not None:
                    yield server
                    return
        raise RuntimeError("Moto did not start")
