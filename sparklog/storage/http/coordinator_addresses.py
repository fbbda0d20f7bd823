"""Sends reads to the coordinators of a cluster, by the addresses given to a client. If one fails, the next is tried.

Safety does not depend on which coordinator answers: all read the same chain, and a command that is sent again keeps its
id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparklog.core.errors import (
    InconsistentClusterId,
    InvalidInput,
    Landed,
    OutcomeUnknown,
    SparklogError,
    TlsFailed,
    TryAgain,
)
from sparklog.storage.http.calls import Calls, NoCoordinator, body_of, decoded
from sparklog.wire.messages import CLUSTER, ClusterReply
from sparklog.wire.metadata_messages import CHAIN_HEADER

READ_S: Final = 10.0  # longest wait for the reply to a read, so that a paused coordinator blocks no client for longer


@dataclass(frozen=True, slots=True)
class CoordinatorReply:
    """The reply of a coordinator to a read that succeeded (status 200 or 206)."""

    body: bytes
    headers: Mapping[str, str]


def is_coordinator(url: str) -> bool:
    """True if `url` is the address of coordinators, rather than of a cluster's metadata store."""
    return url.lower().startswith(("http://", "https://"))


def addresses_in(url: str) -> tuple[str, ...]:
    """Return the addresses in `http://host:7400[,http://host2:7400…]`, in order, each once. Raises InvalidInput."""
    return tuple(dict.fromkeys(_address(part.strip()) for part in url.split(",")))


class Coordinators:
    """Sends reads to coordinators. Thread-safe; make a new instance after a fork.

    The attribute `chain_id` is the cluster's id, or None while it is not known. Once it is set, replies from a
    coordinator of another cluster are refused.
    """

    def __init__(self, url: str, calls: Calls) -> None:
        """`url` is one address or several, separated by commas. Raises InvalidInput."""
        self.addresses = addresses_in(url)
        self.chain_id: str | None = None
        self._calls = calls
        self._first = 0  # index of the address that answered last

    def cluster(self) -> ClusterReply:
        """Return the description of the cluster, from the first coordinator that can give it.

        Raises the errors of `get`, and NoCoordinator if the reply can't be read.
        """
        answer = self.get(CLUSTER)
        return decoded(answer.body, ClusterReply, self.addresses[self._first])

    def get(
        self, path: str, fields: Mapping[str, str] | None = None, headers: Mapping[str, str] = {}
    ) -> CoordinatorReply:
        """Return the reply to a read, from the first coordinator that can give it.

        Asks the next address if no coordinator answers, if the coordinator belongs to another cluster, or if another
        one may succeed (see `_may_another_answer`). If all addresses fail, raises `all_failed` of their errors:
        NoCoordinatorAnswers or another TryAgain if there is one, else for example NoCoordinator, InconsistentClusterId
        or TlsFailed. Raises any other error in a reply, such as AccessRefused, at once.
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
        """Return the indexes of the addresses, beginning with the address that answered most recently."""
        count, first = len(self.addresses), self._first
        return ((first + index) % count for index in range(count))

    def _ask(
        self, address: str, path: str, fields: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> CoordinatorReply:
        of_chain = {} if self.chain_id is None else {CHAIN_HEADER: self.chain_id}
        reply = self._calls.request("GET", address, path, read_s=READ_S, fields=fields, headers={**headers, **of_chain})
        answer = CoordinatorReply(body_of(reply, address, path), reply.headers)
        chain_id = answer.headers.get(CHAIN_HEADER)
        if self.chain_id is not None and chain_id is not None and chain_id != self.chain_id:
            raise InconsistentClusterId(
                f"wanted cluster {self.chain_id} at {address}, found the coordinator of cluster {chain_id}: "
                "connect again if the cluster was created again, else correct the address"
            )
        return answer


def all_failed(failures: Sequence[SparklogError]) -> SparklogError:
    """Combine the errors of all addresses into one: the first TryAgain, else the first error, with the texts of all.

    Its `landed` is UNKNOWN if that of any of them is. A single error is returned as it is.
    """
    if len(failures) == 1:
        return failures[0]
    chosen = next((error for error in failures if isinstance(error, TryAgain)), failures[0])
    return type(chosen)(
        f"none of {len(failures)} addresses works: {'; '.join(error.message for error in failures)}",
        landed=max((error.landed for error in failures), key=lambda landed: landed is Landed.UNKNOWN),
    )


def _may_another_answer(error: SparklogError) -> bool:
    return isinstance(error, TryAgain | NoCoordinator | InconsistentClusterId | OutcomeUnknown | TlsFailed)


def _address(text: str) -> str:
    """Check one address, and return it without a '/' at its end. Raises InvalidInput."""
    wanted = "the address of a coordinator is like http://host:7400, several are separated by commas"
    if not is_coordinator(text):
        raise InvalidInput(f"{wanted}, found {text!r}" if "@" not in text else f"{wanted}")
    from urllib3.exceptions import LocationParseError
    from urllib3.util import parse_url

    try:
        parts = parse_url(text)
    except LocationParseError as error:
        raise InvalidInput(f"{wanted}, found {text!r}") from error
    if parts.auth is not None:
        raise InvalidInput(f"the address of a coordinator has no user and no password, found one: {parts.scheme}://…")
    if not parts.host or parts.path not in (None, "/") or parts.query is not None or parts.fragment is not None:
        raise InvalidInput(f"{wanted}, found {text}")
    return f"{parts.scheme}://{parts.netloc}"
