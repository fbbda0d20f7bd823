"""Requests of this process to coordinators: with its token, and over TLS that is checked."""

from __future__ import annotations

import ipaddress
import re
import ssl
import threading
from collections.abc import Callable
from typing import Final

import urllib3

from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import InvalidOption, Landed, TlsFailed

CONNECT_S: Final = 2.0
_TOKEN: Final = re.compile(r"[!-~]+")

# What to do if a certificate is not valid, by OpenSSL's number (X509_V_ERR_…).
_EXPIRED, _NOT_YET, _HOST, _ADDRESS = 10, 9, 62, 64
_UNTRUSTED: Final = (2, 18, 19, 20, 21)


class Calls:
    """Sends requests. `settings` gives those of this process, and is asked again when a token was refused.

    So a process that runs for long takes a new token from its config file. Safe for threads.
    """

    def __init__(self, settings: Callable[[], StorageSettings]) -> None:
        self._settings = settings
        self._used = settings()
        self._pools: dict[str, urllib3.PoolManager] = {}
        self._changing = threading.Lock()

    def request(
        self, method: str, address: str, path: str, *, read_s: float, body: bytes | None = None, kind: str = ""
    ) -> urllib3.BaseHTTPResponse:
        """The answer to a request, whatever its status is. `kind` is the content type of the body.

        Raises urllib3's HTTPError, TlsFailed (nothing was sent unless it says so), InvalidOption.
        """
        used = self._used
        answer = self._send(used, method, address, path, body, kind, read_s)
        if answer.status == 401 and self._renewed(used):
            answer = self._send(self._used, method, address, path, body, kind, read_s)
        return answer

    def _send(
        self, used: StorageSettings, method: str, address: str, path: str, body: bytes | None, kind: str, read_s: float
    ) -> urllib3.BaseHTTPResponse:
        headers = _authorization(used.token, address) | ({"content-type": kind} if kind else {})
        timeout = urllib3.Timeout(connect=CONNECT_S, read=read_s)
        try:
            return self._pool(address, used.ca).request(
                method, address.rstrip("/") + path, body=body, headers=headers, timeout=timeout
            )
        except urllib3.exceptions.SSLError as error:
            raise _tls_failed(address, error) from error

    def _renewed(self, used: StorageSettings) -> bool:
        """Whether there is another token by now than the one in `used`."""
        now = self._settings()
        with self._changing:
            self._used, self._pools = now, {} if now.ca != self._used.ca else self._pools
        return now.token != used.token

    def _pool(self, address: str, ca: str | None) -> urllib3.PoolManager:
        scheme = address.partition(":")[0]
        with self._changing:
            pool = self._pools.get(scheme)
            if pool is None:
                context = _trusting(ca) if scheme == "https" else None  # it loads all the system's certificates
                pool = self._pools[scheme] = urllib3.PoolManager(maxsize=32, retries=False, ssl_context=context)
            return pool


def _authorization(token: str | None, address: str) -> dict[str, str]:
    """The header with the token. It never goes over a network in clear, whatever address the chain names."""
    if token is None:
        return {}
    if _TOKEN.fullmatch(token) is None:  # a library's error would show it
        raise InvalidOption("cluster.token (SPARKLOG_TOKEN): wanted one line of ASCII without spaces, found another")
    if not address.startswith("https://") and not _is_this_machine(urllib3.util.parse_url(address).host):
        raise TlsFailed(f"a token is sent over TLS or to this machine only, found {address}: use its https:// address")
    return {"authorization": f"Bearer {token}"}


def _is_this_machine(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address((host or "").strip("[]")).is_loopback
    except ValueError:
        return False


def _trusting(ca: str | None) -> ssl.SSLContext:
    """Raises InvalidOption."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # no file, or no certificates in it
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise InvalidOption(
            f"cluster.ca (SPARKLOG_CA): wanted a file of certificates in PEM, found {ca}: {reason}"
        ) from error


def _tls_failed(address: str, error: urllib3.exceptions.SSLError) -> TlsFailed:
    cause = error.args[0] if error.args else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TlsFailed(
            f"{address}: its certificate is not valid here: {cause.verify_message.rstrip('.')}; {_advice(cause)}"
        )
    if getattr(cause, "reason", None) in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return TlsFailed(f"{address} does not speak TLS: if it is a coordinator without it, use its http:// address")
    return TlsFailed(f"{address}: the TLS connection failed: {cause}", landed=Landed.UNKNOWN)


def _advice(cause: ssl.SSLCertVerificationError) -> str:
    if cause.verify_code == _EXPIRED:
        return "renew it there, which needs no restart"
    if cause.verify_code == _NOT_YET:
        return "compare the clocks of both machines"
    if cause.verify_code in (_HOST, _ADDRESS):
        return "use a host name that is in it, also for --advertise"
    if cause.verify_code in _UNTRUSTED:
        return "set SPARKLOG_CA (cluster.ca) to the certificate of its CA"
    return "see the coordinator's --tls-certificate"
