"""The content of a confirmation form: commands of a plan with their ids, sealed for one principal, for 15 minutes.

The server keeps nothing between the plan and its confirmation. A form that is sent twice has the same commands, under
the same ids, so the chain applies them once. A form can't be forged for another user: the seal is an HMAC under a key
of this process, and the browser lets no other site read a form that was made for its user.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec
from starlette.requests import Request

from sparklog.core.commands import Submission
from sparklog.core.describe.readable import duration
from sparklog.core.errors import ClusterAuthorizationFailed
from sparklog.host.dice import new_token

VALID_MS: Final = 15 * 60_000  # the greatest age of a plan when it is confirmed


class SealedPlan(msgspec.Struct, frozen=True):
    """A plan that was shown to a principal at `made_ms`. `submissions`: its commands, with their ids.

    `done`: the sentence to show after their commit.
    """

    action: str
    principal: str
    made_ms: int
    chain_id: str
    done: str
    submissions: tuple[Submission, ...]


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(SealedPlan)


class Seals:
    """Seals plans under a key drawn at random, and opens only plans that it has sealed itself.

    So a form of another process, or from before a restart, is refused.
    """

    def __init__(self) -> None:
        self._key = new_token().encode()

    def sealed(self, plan: SealedPlan) -> str:
        """Encode the plan as text for a form, with a digest by which `opened` detects changes of the text."""
        body = _encoder.encode(plan)
        return urlsafe_b64encode(self._digest(body) + body).decode()

    def opened(self, text: str, action: str, principal: str, now_ms: int) -> SealedPlan:
        """Open the plan in the text of a form.

        Raises ClusterAuthorizationFailed if the text was changed or is of another process, if the plan is for another
        action or principal, or if it is older than VALID_MS.
        """
        try:
            raw = urlsafe_b64decode(text.encode())
        except ValueError:
            raw = b""
        digest, body = raw[: hashlib.sha256().digest_size], raw[hashlib.sha256().digest_size :]
        if not hmac.compare_digest(digest, self._digest(body)):
            raise ClusterAuthorizationFailed(
                "wanted a form that this process has made, found none, or one of another process: load the plan again"
            )
        plan = _decoder.decode(body)
        if (plan.action, plan.principal) != (action, principal):
            raise ClusterAuthorizationFailed(f"the form was made for {plan.action} by {plan.principal}")
        if not 0 <= now_ms - plan.made_ms <= VALID_MS:
            raise ClusterAuthorizationFailed(
                f"the form is older than {duration(VALID_MS)}, so its plan may no longer hold: load the plan again"
            )
        return plan

    def _digest(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")


def check_same_origin(request: Request, address: str) -> None:
    """Raise ClusterAuthorizationFailed unless a page of this coordinator has sent the request.

    A browser sends the credentials of HTTP's Basic authentication even if a page of another site causes the request.
    But the request names that site: in Origin (RFC 6454), and in Sec-Fetch-Site if the browser supports it. Origin must
    be the request's Host, or `address`, the coordinator's advertised address: a proxy may have changed Host.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    name = origin.partition("://")[2].lower()
    is_own = name != "" and (name == request.headers.get("host", "").lower() or origin.lower() == address.lower())
    if not is_own or site not in (None, "same-origin"):
        raise ClusterAuthorizationFailed(
            "only a page of this coordinator changes anything: wanted its own address in the header Origin, found "
            f"{origin[:200]!r}"
        )
