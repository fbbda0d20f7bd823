"""Repeats requests to object storage after failures: requests that are safe to repeat, and conditional writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from sparklog.core.describe.readable import duration
from sparklog.core.errors import KeyExists, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.host.deadline import Deadline, tries

# Tries of a request that certainly did nothing, or that is safe to repeat. After these, the caller decides.
HARMLESS_TRIES: Final = 6

Result = TypeVar("Result")


class RequestFailed(Exception):
    """One request that did not succeed. `reason`: one line without secrets.

    A subclass for each kind of store defines the properties.
    """

    reason: str

    @property
    def exists(self) -> bool:
        """True if a conditional write found its key taken."""
        raise NotImplementedError

    @property
    def absent(self) -> bool:
        """True if the store itself, not a server in between, says that the key or the upload does not exist."""
        raise NotImplementedError

    @property
    def upload_gone(self) -> bool:
        """True if the store no longer has the upload to which the request belongs."""
        return False

    @property
    def may_pass(self) -> bool:
        """True if the same request may succeed when it is sent again."""
        raise NotImplementedError

    @property
    def in_doubt(self) -> bool:
        """True if the failed write may have been carried out: it was sent, and the store did not refuse it for good."""
        raise NotImplementedError


def repeated(send: Callable[[], Result], deadline: Deadline) -> Result:
    """Send a request until it succeeds, and return its answer. The request must be safe to repeat.

    Gives up at the deadline, after HARMLESS_TRIES attempts, or after a failure that a repeat can't cure. Then raises
    the last RequestFailed.
    """
    last: RequestFailed | None = None
    for number in tries(deadline):
        try:
            return send()
        except RequestFailed as failed:
            if failed.absent or not failed.may_pass or number >= HARMLESS_TRIES:
                raise
            last = failed
    assert last is not None
    raise last


@dataclass(frozen=True, slots=True)
class ConditionalWrite:
    """A write that puts one object only if its key is free.

    `send` sends the write once. `write_id_there` reads the write id of the object under `key`. `error` returns the
    error to raise after a definite failure; its arguments are the failure, and the request in words. `endpoint` names
    the server in errors. `always_looks`: compare the write ids whenever the key is taken, not only if an earlier
    attempt got no answer.
    """

    key: str
    write_id: str
    endpoint: str
    send: Callable[[Deadline], object]
    write_id_there: Callable[[Deadline], str | None]
    error: Callable[[RequestFailed, str], SparklogError]
    always_looks: bool

    def run(self, deadline: Deadline) -> None:
        """Send the write until it gets a definite answer or the deadline passes.

        The same bytes are sent each time. If an earlier attempt got no answer and the key is now taken, compare
        `write_id` to learn whether the object is ours. Gives up after HARMLESS_TRIES attempts if all of them certainly
        wrote nothing. Raises the errors of `ObjectStore.put_if_absent`.
        """
        wanted = f"put {self.key} if absent"
        in_doubt = False
        for number in tries(deadline):
            try:
                self.send(deadline)
                return
            except RequestFailed as failed:
                last = failed
            if last.exists or (last.upload_gone and in_doubt):
                if (in_doubt or self.always_looks) and self._is_own(deadline, taken=last.exists):
                    return
                raise KeyExists(f"wanted to {wanted}, found an object there") from last
            if last.upload_gone:
                raise StoreUnavailable(f"wanted to {wanted}, found that its upload was removed as abandoned") from last
            # A store never answers a write with "no such key". If that answer comes, something in between sent it, and
            # the write may have been done.
            if not (last.may_pass or last.absent):
                if in_doubt:
                    break
                raise self.error(last, wanted) from last
            in_doubt = in_doubt or last.in_doubt or last.absent
            if not in_doubt and number >= HARMLESS_TRIES:
                break
        if in_doubt:
            raise OutcomeUnknown(
                f"wanted to {wanted} at {self.endpoint}, no definite answer came in "
                f"{duration(deadline.timeout_ms)}, the last was: {last.reason}"
            ) from last
        raise self.error(last, wanted) from last

    def _is_own(self, deadline: Deadline, *, taken: bool) -> bool:
        """True if the object under the key comes from this write. False if not, or if its write id can't be read.

        `taken` is True if the write found the key taken, and False if it found its upload gone. In the second case the
        object can no longer appear, so StoreUnavailable is raised if the key is absent.
        """
        try:
            return repeated(lambda: self.write_id_there(deadline), deadline) == self.write_id
        except RequestFailed as failed:
            if failed.absent and not taken:
                raise StoreUnavailable(
                    f"wanted to put {self.key} if absent, found neither it nor its upload"
                ) from failed
            return False
