"""Credentials that are missing, wrong or of another account: an error says so, before anything is sent."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError

from sparklog.core.errors import InvalidInput, Landed, StoreAccessDenied, StoreReadOnly, StoreUnavailable
from sparklog.storage.cloud.access_tokens import AccessTokens
from sparklog.storage.cloud.failures import CloudRequestFailed
from sparklog.storage.open_store import open_store
from tests.servers.local_server import free_port
from tests.servers.tls import certificate_at

KEY = "a2VwdC1zZWNyZXQ="


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "there is no file"), ("{}", "the credentials can't be read: .*missing fields"), ("key", "Expecting value")],
    ids=["missing", "without fields", "no JSON"],
)
def test_a_file_of_credentials_that_is_none_is_refused(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InvalidInput, match=said):
        open_store("gs://bucket", {"credentials_file": str(file)}).size("a")


def test_without_credentials_nothing_is_sent_anonymously(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(StoreUnavailable, match="wanted credentials for Google Cloud Storage, found none"):
        open_store("gs://bucket").put_if_absent("a", b"body")


def test_credentials_may_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(**_: object) -> None:
        raise DefaultCredentialsError("none")

    monkeypatch.setattr("google.auth.default", search)
    tokens = AccessTokens()
    with pytest.raises(StoreUnavailable):
        tokens.headers(20)
    monkeypatch.setattr("google.auth.default", lambda **_: (AnonymousCredentials(), None))
    assert tokens.headers(20) == {}


@contextmanager
def tokens(status: int, body: bytes, after: threading.Event | None = None) -> Iterator[str]:
    """A server of access tokens that answers this, once `after` is set."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if after is not None:
                after.wait(20)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()


def service_account(file: Path, token_uri: str) -> dict[str, str]:
    key = rsa.generate_private_key(65_537, 2_048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    about = {"type": "service_account", "client_email": "a@b", "private_key": pem, "token_uri": token_uri}
    file.write_text(json.dumps(about))
    return {"credentials_file": str(file), "timeout_ms": "30000"}


def test_a_refused_key_of_google_is_final_and_says_why(tmp_path: Path) -> None:
    refusal = b'{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}'
    with tokens(400, refusal) as uri:
        store = open_store("gs://bucket", service_account(tmp_path / "key.json", uri))
        with pytest.raises(StoreAccessDenied, match="no access token: invalid_grant: Invalid JWT Signature"):
            store.size("a")
        with pytest.raises(StoreReadOnly, match="Invalid JWT Signature"):
            store.put_if_absent("a", b"body")


def test_without_an_access_token_nothing_landed(tmp_path: Path) -> None:
    with tokens(200, b"no JSON") as uri:
        store = open_store("gs://bucket", service_account(tmp_path / "key.json", uri))
        with pytest.raises(StoreUnavailable, match="no access token") as failed:
            store.put_if_absent("a", b"body")
    assert failed.value.landed is Landed.NO


def test_while_googles_tokens_hang_calls_end_in_time_and_others_do_not_wait(tmp_path: Path) -> None:
    answered = threading.Event()
    with tokens(200, b'{"access_token": "t", "expires_in": 3600}', answered) as uri:
        store = open_store("gs://bucket", {**service_account(tmp_path / "key.json", uri), "timeout_ms": "8000"})
        with ThreadPoolExecutor() as pool:
            hanging = pool.submit(store.put_if_absent, "a", b"body")
            other = open_store(
                "gs://bucket", {"endpoint_url": f"http://127.0.0.1:{free_port()}", "timeout_ms": "20000"}
            )
            with pytest.raises(StoreUnavailable, match="Connection refused"):
                other.size("a")
            assert not hanging.done()
            with pytest.raises(StoreUnavailable, match="no access token in time") as failed:
                hanging.result()
        assert failed.value.landed is Landed.NO
        answered.set()


def test_while_one_call_searches_for_credentials_others_end_in_time_and_search_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, searches = threading.Event(), []

    def search(**_: object) -> tuple[AnonymousCredentials, None]:
        searches.append(1)
        found.wait(20)
        return AnonymousCredentials(), None

    monkeypatch.setattr("google.auth.default", search)
    tokens = AccessTokens()
    with ThreadPoolExecutor() as pool:
        searching = pool.submit(tokens.headers, 20)
        while not searches:
            time.sleep(0.01)
        for _ in range(2):
            with pytest.raises(CloudRequestFailed, match="NOT_DONE: no access token in time"):
                tokens.headers(0.1)
        found.set()
        assert searching.result() == {}
    assert tokens.headers(20) == {}
    assert searches == [1]


def test_a_metadata_server_that_fails_may_answer_later(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnAMachineOfGoogle(AnonymousCredentials):
        valid = False

        def refresh(self, request: object) -> None:
            raise RefreshError(TransportError("HTTP 503"))

    with pytest.raises(CloudRequestFailed, match="NOT_DONE: no access token: HTTP 503"):
        AccessTokens(OnAMachineOfGoogle()).headers(20)


def test_a_token_is_not_sent_without_tls(tmp_path: Path) -> None:
    settings = service_account(tmp_path / "key.json", "http://127.0.0.1:9/token")
    store = open_store("gs://bucket", {**settings, "endpoint_url": f"http://127.0.0.1:{free_port()}"})
    with pytest.raises(StoreUnavailable, match="Connection refused") as failed:  # by the store, not for a token
        store.size("a")
    assert "no access token" not in str(failed.value)


def test_a_key_of_azure_that_is_none_is_named_and_nothing_landed() -> None:
    store = open_store("abfs://logs", {"account_name": "mine", "account_key": "x", "timeout_ms": "300"})
    with pytest.raises(StoreUnavailable, match="the credentials can't be used") as failed:
        store.put_if_absent("a", b"body")
    assert failed.value.landed is Landed.NO


@pytest.mark.parametrize("given", [True, False], ids=["in the settings", "in the environment"])
def test_a_connection_string_of_another_account_is_refused(given: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"AccountName=yours;AccountKey={KEY};BlobEndpoint=http://127.0.0.1:9/yours"
    settings = {"connection_string": text} if given else {"account_key": KEY}
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    store = open_store("abfs://logs@mine.dfs.core.windows.net", {**settings, "timeout_ms": "300"})
    with pytest.raises(InvalidInput, match="'mine', found 'yours'"):
        store.size("a")


def test_credentials_of_azure_that_are_missing_are_named_in_the_error_alone() -> None:
    """The library would print ten lines for each try, in a process that configures no logging."""
    code = """if True:
        import logging
        import sparklog.storage.cloud.azure
        logging.getLogger("azure.identity._credentials.chained").warning("failed")
        """
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert ran.stderr == b""


def test_a_certificate_that_is_refused_is_no_write_in_doubt(tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate_at(tmp_path / "own.pem"))
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"https://127.0.0.1:{server.server_port}"
        settings = {"endpoint_url": endpoint, "account_name": "mine", "account_key": KEY, "timeout_ms": "1000"}
        with pytest.raises(StoreUnavailable, match="certificate verify failed") as failed:
            open_store("abfs://logs", settings).put_if_absent("a", b"body")
        server.shutdown()
    assert failed.value.landed is Landed.NO
