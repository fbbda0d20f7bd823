"""Files that are read again when they change, without a restart: the certificate and its key, the access file.

If a new version of a file is not valid, that is reported once, and the last valid version stays in force.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from sparklog.coordinator.access.access_file import parse_access
from sparklog.coordinator.leading.control import LogEvent
from sparklog.core.access import Access
from sparklog.core.errors import InvalidConfig

EVERY_S: Final = 1.0  # between two looks at the files

T = TypeVar("T")


class RenewedFiles(Generic[T]):
    """A value built from a few small files. `look` builds it again if they have changed; call `look` regularly.

    `what` is the name of the value in messages. `taken` is the function that builds the value from the files' contents.
    """

    def __init__(self, what: str, paths: Sequence[str], taken: Callable[[Sequence[bytes]], T], say: LogEvent) -> None:
        """Read the files for the first time. Raises InvalidConfig if a file can't be read or is not valid."""
        self._what, self._paths, self._taken, self._say = what, paths, taken, say
        self._seen: list[bytes] | None = None  # None also after a file could not be read
        self._problem = ""
        self.value = self._take(self._read())

    def look(self) -> None:
        """Read the files, and build the value again if their contents have changed.

        On an error, report the error and keep the old value. Modification times are not compared, because a changed
        file may keep its time.
        """
        try:
            bodies = self._read()
            if bodies == self._seen:
                return
            self.value = self._take(bodies)
        except InvalidConfig as error:
            if error.message != self._problem:
                self._problem = error.message
                self._say("error", f"{error.message}; the version before stays in force")
            return
        self._problem = ""
        self._say("renewed", f"{self._what} from {', '.join(self._paths)}")

    def _read(self) -> list[bytes]:
        bodies = []
        for path in self._paths:
            try:
                bodies.append(Path(path).read_bytes())
            except OSError as error:
                self._seen = None  # the same contents are news after this
                raise InvalidConfig(f"{self._what}: {path} can't be read: {error.strerror}") from error
        return bodies

    def _take(self, bodies: list[bytes]) -> T:
        self._seen = bodies
        try:
            return self._taken(bodies)
        except InvalidConfig as error:
            raise InvalidConfig(f"{self._what}: {self._paths[0]}: {error.message}") from error


def access_in(path: str, say: LogEvent) -> RenewedFiles[Access]:
    """Read the access file at `path`. Raises InvalidConfig if the file can't be read or is not valid."""
    return RenewedFiles("the access file", [path], lambda bodies: parse_access(bodies[0]), say)


class Certificate:
    """The certificate and key of a TLS server, from two files that are read again when they change.

    The attribute `context`, the server's TLS context, is always the same object. Through it, each new connection gets
    the newest certificate.
    """

    def __init__(self, certificate: str, key: str, say: LogEvent) -> None:
        """Read the files at the paths `certificate` and `key`. Raises InvalidConfig if they are not valid."""
        self.files = RenewedFiles(
            "the TLS certificate and key", [certificate, key], lambda _: _server_context(certificate, key), say
        )
        self.context = _server_context(certificate, key)
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Use the newest certificate for this connection. `ssl` calls this at each handshake, even without a `name`."""
        connection.context = self.files.value


async def look_again(looks: Sequence[Callable[[], None]]) -> None:
    """Call all of `looks` every EVERY_S seconds, in a thread, one after the other. Runs until it is cancelled."""
    while True:
        await asyncio.sleep(EVERY_S)
        for look in looks:
            await asyncio.to_thread(look)


def _server_context(certificate: str, key: str) -> ssl.SSLContext:
    """The TLS context of a server, from the files at the paths `certificate` and `key`.

    Raises InvalidConfig if a file can't be read, or if they are not a certificate and its private key in PEM.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # even if a library of this process changed the default
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except ssl.SSLError as error:
        raise InvalidConfig(f"no certificate with its private key in PEM: {error.reason or error}") from error
    except OSError as error:
        raise InvalidConfig(f"it can't be read: {error.strerror}") from error
    return context


def _no_password() -> str:
    raise InvalidConfig("the private key is encrypted: wanted one without a password")
