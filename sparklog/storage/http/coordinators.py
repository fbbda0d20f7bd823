"""The coordinators of a cluster, by the addresses that a client was given: one that does not answer makes way.

Which of them answers never matters for safety: each reads the same chain, and a command has an id.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
import urllib3

from sparklog.core.errors import (
    InconsistentClusterId,
    InvalidInput,
    Landed,
    OutcomeUnknown,
    SparklogError,
    StoreUnavailable,
    TryAgain,
)
from sparklog.wire.errors import ErrorReply, raised
from sparklog.wire.messages import CLUSTER, CONTENT_TYPE, ClusterReply
from sparklog.wire.reading import CHAIN_HEADER

T = TypeVar("T")

CONNECT_S: Final = 2.0
READ_S: Final = 10.0  # for the reply to a read: a coordinator that is paused holds nobody up for longer
CONNECTIONS: Final = 32  # kept open to each address; as many entries are asked for at once

_error_decoder = msgspec.msgpack.Decoder(ErrorReply)
_NOT_DONE: Final = (404, 405)  # with these statuses, a server that is no coordinator has passed nothing on
# Reasons of OpenSSL for a reply that is no TLS at all.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG")


class NoCoordinatorAnswers(StoreUnavailable):
    """A coordinator could not be reached, or did not answer."""

    code = TryAgain.code


class NoCoordinator(InvalidInput):
    """Something else than a coordinator is at the address."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A coordinator's reply, whose status is 200 or 206."""

    body: bytes
    headers: Mapping[str, str]


def is_coordinator(url: str) -> bool:
    """Whether this is the address of coordinators, and not the place of a cluster's metadata."""
    return url.lower().startswith(("http://", "https://"))


def addresses_in(url: str) -> tuple[str, ...]:
    """The addresses in `http://host:7400[,http://host2:7400…]`, each once. Raises InvalidInput."""
    return tuple(dict.fromkeys(_address(part.strip()) for part in url.split(",")))


def connections() -> urllib3.PoolManager:
    """Connections to coordinators. Nothing is sent again and no redirect is followed: the caller decides."""
    return urllib3.PoolManager(maxsize=CONNECTIONS, retries=False)


class Coordinators:
    """Asks them. Safe for threads; make another one after a fork.

    `chain_id` is the cluster's, once it is known: then the coordinator of another cluster is not listened to.
    """

    def __init__(self, url: str) -> None:
        """`url` is one address or several, separated by commas. Raises InvalidInput."""
        self.addresses = addresses_in(url)
        self.chain_id: str | None = None
        self._pool = connections()
        self._first = 0  # index of the address that answered last

    def cluster(self) -> ClusterReply:
        """What the first one that answers says of its cluster. Raises NoCoordinatorAnswers, NoCoordinator."""
        answer = self.get(CLUSTER)
        return _decoded(answer.body, ClusterReply)

    def get(self, path: str, fields: Mapping[str, str] | None = None, headers: Mapping[str, str] = {}) -> Answer:
        """A reply to a read, from the first that answers. Raises what it answers, and the errors of `cluster`.

        Raises InconsistentClusterId if all that answer belong to another cluster.
        """
        failures: list[SparklogError] = []
        for index in self._in_order():
            try:
                answer = self._ask(self.addresses[index], path, fields, headers)
            except SparklogError as error:
                if not _may_another_answer(error):
                    raise
                failures.append(error)
            else:
                self._first = index
                return answer
        raise all_failed(failures)

    def _in_order(self) -> Iterator[int]:
        """Indexes of the addresses; the one that answered last comes first."""
        count, first = len(self.addresses), self._first
        return ((first + index) % count for index in range(count))

    def _ask(self, address: str, path: str, fields: Mapping[str, str] | None, headers: Mapping[str, str]) -> Answer:
        of_chain = {} if self.chain_id is None else {CHAIN_HEADER: self.chain_id}
        timeout = urllib3.Timeout(connect=CONNECT_S, read=READ_S)
        try:
            reply = self._pool.request(
                "GET", address + path, fields=fields, headers={**headers, **of_chain}, timeout=timeout
            )
        except urllib3.exceptions.HTTPError as error:
            raise no_reply(address, error) from error
        answer = Answer(body_of(reply, address, path), reply.headers)
        found = answer.headers.get(CHAIN_HEADER)
        if self.chain_id is not None and found is not None and found != self.chain_id:
            raise InconsistentClusterId(
                f"wanted cluster {self.chain_id} at {address}, found the coordinator of cluster {found}: "
                "connect again if the cluster was created again, else correct the address"
            )
        return answer


def body_of(reply: urllib3.BaseHTTPResponse, address: str, path: str) -> bytes:
    """The body of a coordinator's reply. Raises the error that it sent, and NoCoordinator (see its `landed`)."""
    kind = reply.headers.get("content-type")
    if reply.status in (200, 206) and (kind == CONTENT_TYPE or CHAIN_HEADER in reply.headers):
        return reply.data
    if reply.status < 400 or kind != CONTENT_TYPE:
        raise NoCoordinator(
            f"wanted a coordinator at {address}, found a server that answers {reply.status} to {path}: "
            "correct the address, or start 'sparklog coordinator' there",
            landed=Landed.NO if reply.status in _NOT_DONE else Landed.UNKNOWN,
        )
    raise raised(_decoded(reply.data, ErrorReply))


def no_reply(address: str, error: urllib3.exceptions.HTTPError) -> SparklogError:
    """The error for a request without a reply. It may have been carried out, unless `landed` is no."""
    if isinstance(error, urllib3.exceptions.SSLError):
        if any(reason in str(error) for reason in _NOT_TLS):
            return NoCoordinator(
                f"wanted TLS at {address}, found a server that does not speak it: if a coordinator is there, its "
                f"address is http://{address.partition('://')[2]}"
            )
        return NoCoordinator(f"wanted a coordinator at {address}, its certificate is not accepted: {_plain(error)}")
    if isinstance(error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError):
        return NoCoordinatorAnswers(
            f"no coordinator answers at {address}: {_plain(error)}; start one there with 'sparklog coordinator', or "
            "correct the address"
        )
    hint = "" if address.startswith("https") else f"; if it speaks TLS, its address is https://{address[7:]}"
    return NoCoordinatorAnswers(f"{address} did not answer: {_plain(error)}{hint}", landed=Landed.UNKNOWN)


def all_failed(failures: Sequence[SparklogError]) -> SparklogError:
    """One error for those of all addresses. It may be tried again if any of them may."""
    if len(failures) == 1:
        return failures[0]
    chosen = next((error for error in failures if isinstance(error, TryAgain)), failures[0])
    return type(chosen)(
        f"no address of {len(failures)} is of use: {'; '.join(error.message for error in failures)}",
        landed=max((error.landed for error in failures), key=lambda landed: landed is Landed.UNKNOWN),
    )


def _may_another_answer(error: SparklogError) -> bool:
    return isinstance(error, TryAgain | NoCoordinator | InconsistentClusterId | OutcomeUnknown)


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise NoCoordinator(f"the reply of a coordinator can't be read, is it of another version? {error}") from error


def _plain(error: Exception) -> str:
    """The reason, without the names of classes and objects of the library."""
    reason = error.__cause__ or error
    if isinstance(reason, ssl.SSLError):
        return str(reason.reason or reason)
    return (getattr(reason, "strerror", None) or str(reason)).strip()


def _address(text: str) -> str:
    """One address, without a '/' at its end. Raises InvalidInput."""
    wanted = "the address of a coordinator is like http://host:7400, several are separated by commas"
    if not is_coordinator(text):
        raise InvalidInput(f"{wanted}, found {text!r}" if "@" not in text else f"{wanted}")
    try:
        parts = urllib3.util.parse_url(text)
    except urllib3.exceptions.LocationParseError as error:
        raise InvalidInput(f"{wanted}, found {text!r}") from error
    if parts.auth is not None:
        raise InvalidInput(f"the address of a coordinator has no user and no password, found one: {parts.scheme}://…")
    if not parts.host or parts.path not in (None, "/") or parts.query is not None or parts.fragment is not None:
        raise InvalidInput(f"{wanted}, found {text}")
    return f"{parts.scheme}://{parts.netloc}"
