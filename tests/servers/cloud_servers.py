"""Emulators of Google Cloud Storage and of Azure's blob storage, fetched once by the clients of their languages.

fake-gcs-server is built by Go, Azurite is installed by npm. A machine without these runs the other tests.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.local_server import ATTEMPTS, LocalServer, free_port, running
from tests.servers.made_once import CACHE, FETCH_S, CannotFetch, made_once

FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"
AZURITE = "azurite@3.35.0"
ACCOUNT = "tests"
ACCOUNT_KEY = base64.b64encode(b"test-secret-key-of-an-azure-account").decode()


@dataclass
class GcsServer(LocalServer):
    """A running fake-gcs-server."""

    @property
    def settings(self) -> dict[str, str]:
        """What `open_store` needs to know, except the address."""
        return {"endpoint_url": self.endpoint_url}

    @property
    def variables(self) -> dict[str, str]:
        """The same as environment variables."""
        return {"STORAGE_EMULATOR_HOST": self.endpoint_url}

    def new_url(self) -> str:
        """Make a bucket and return the address of a store in it."""
        bucket = f"b-{uuid.uuid4().hex}"
        body = json.dumps({"name": bucket}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.endpoint_url}/storage/v1/b?project=tests", body, headers)
        urllib.request.urlopen(request, timeout=30).close()
        return f"gs://{bucket}/cluster"


@dataclass
class AzureServer(LocalServer):
    """A running Azurite."""

    @property
    def settings(self) -> dict[str, str]:
        """What `open_store` needs to know, except the address."""
        return {"endpoint_url": self.endpoint_url, "account_name": ACCOUNT, "account_key": ACCOUNT_KEY}

    @property
    def connection_string(self) -> str:
        """The same in one text, as Azure's tools want it."""
        return f"AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={self.endpoint_url}/{ACCOUNT}"

    @property
    def variables(self) -> dict[str, str]:
        """The same as environment variables."""
        return {"AZURE_STORAGE_CONNECTION_STRING": self.connection_string}

    def new_url(self) -> str:
        """Make a container and return the address of a store in it."""
        from azure.storage.blob import BlobServiceClient

        container = f"c-{uuid.uuid4().hex}"
        with BlobServiceClient.from_connection_string(self.connection_string) as client:
            client.create_container(container)
        return f"abfs://{container}/cluster"


CloudServer = GcsServer | AzureServer


@contextmanager
def fake_gcs() -> Iterator[GcsServer]:
    """fake-gcs-server: everything in memory. Raises CannotFetch."""
    program = fake_gcs_program()
    with tempfile.TemporaryDirectory(prefix="sparklog-gcs-") as work:
        for _ in range(ATTEMPTS):
            port = free_port()
            command = [
                *(str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"),
                *("-external-url", f"http://127.0.0.1:{port}", "-log-level", "warn"),
            ]
            with running(GcsServer, command, dict(os.environ), port, Path(work, "log")) as server:
                if server is not None:
                    yield server
                    return
        raise RuntimeError("fake-gcs-server did not start")


@contextmanager
def azurite() -> Iterator[AzureServer]:
    """Azurite on files in a temporary directory. Raises CannotFetch."""
    program = azurite_program()
    with tempfile.TemporaryDirectory(prefix="sparklog-azurite-") as work:
        for _ in range(ATTEMPTS):
            port = free_port()
            command = [
                *(_command("node"), str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port)),
                *("--location", work, "--silent", "--disableTelemetry", "--skipApiVersionCheck"),
            ]
            environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
            with running(AzureServer, command, environment, port, Path(work, "log")) as server:
                if server is not None:
                    yield server
                    return
        raise RuntimeError("Azurite did not start")


def fake_gcs_program() -> Path:
    """The program, built if this is the first run here: two minutes of one core. Raises CannotFetch."""
    return _fetched(FAKE_GCS, "go", lambda _: ["install", FAKE_GCS]) / "fake-gcs-server"


def azurite_program() -> Path:
    """The main module, fetched if this is the first run here. Raises CannotFetch."""
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    folder = _fetched(AZURITE, "npm", lambda to: ["install", *options, "--prefix", to, AZURITE])
    return folder / "node_modules/azurite/dist/src/blob/main.js"


def _fetched(wanted: str, client: str, arguments: Callable[[str], Sequence[str]]) -> Path:
    """The folder of what `client` fetches."""
    name = wanted.rpartition("/")[2].replace("@", "-")
    return made_once(CACHE / name, lambda work: _fetch(wanted, [_command(client), *arguments(f"{work}/all")], work))


def _fetch(wanted: str, command: Sequence[str], work: Path) -> Path:
    """Run a client that fetches into `work`/all. What it keeps for itself goes with `work`."""
    fetched = work / "all"
    fetched.mkdir()
    places = {"GOBIN": "all", "GOCACHE": "go-build", "GOPATH": "go", "npm_config_cache": "npm"}
    own = {name: str(work / place) for name, place in places.items()} | {"GOFLAGS": "-modcacherw"}
    try:
        done = subprocess.run(
            command, check=False, env=os.environ | own, capture_output=True, text=True, timeout=FETCH_S
        )
    except subprocess.TimeoutExpired as error:
        raise CannotFetch(f"wanted {wanted}, not here after {FETCH_S} s") from error
    if done.returncode != 0:
        raise CannotFetch(f"wanted {wanted}, {command[0]} said: {done.stderr.strip()[-400:]}")
    return fetched


def _command(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise CannotFetch(f"wanted {name} to fetch or start an emulator, found none in PATH")
    return found
