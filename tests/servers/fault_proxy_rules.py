"""What the fault proxy knows of S3 and of faults: kinds of requests, what may happen to one, and to which one.

No I/O here: `fault_proxy.py` acts on it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

# The class of a request in a bill: what `FaultProxy.counts` counts.
BILLED_AS = {
    "PUT": "PUT",
    "UPLOAD_PART": "PUT",
    "COPY": "PUT",
    "CREATE_BUCKET": "PUT",
    "GET": "GET",
    "HEAD": "HEAD",
    "HEAD_BUCKET": "HEAD",
    "LIST": "LIST",
    "DELETE": "DELETE",
    "ABORT_MULTIPART": "DELETE",
    "DELETE_BUCKET": "DELETE",
    "DELETE_MANY": "POST",
    "CREATE_MULTIPART": "POST",
    "COMPLETE_MULTIPART": "POST",
}


@dataclass(slots=True)
class Request:
    """One request as it came in, and what became of it. `number` counts from 1 in order of arrival.

    `status` is what the client was answered, `upstream_status` what the server answered to the proxy; None where
    there was no whole head of an answer. Header names are in lower case.
    """

    number: int
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    fault: Fault | None = None
    status: int | None = None
    upstream_status: int | None = None

    @property
    def kind(self) -> str:
        """The S3 operation (a key of `BILLED_AS`), or the method itself if it is none of them. Path-style only."""
        return kind_of(self.method, self.path, self.query, self.headers)

    @property
    def billed_as(self) -> str:
        """The class of the request in a bill, or its method if it is no S3 operation."""
        return BILLED_AS.get(self.kind, self.kind)

    @property
    def range(self) -> str | None:
        """The Range header as sent, such as `bytes=0-99`."""
        return self.headers.get("range")

    @property
    def key(self) -> str:
        """The path without the bucket."""
        return self.path.lstrip("/").partition("/")[2]

    @property
    def reached_upstream(self) -> bool:
        """Whether the server answered it: a PUT that did was applied if `upstream_status` is 2xx."""
        return self.upstream_status is not None

    def __str__(self) -> str:
        query = f"?{self.query}" if self.query else ""
        asked = f" {self.range}" if self.range else ""
        return f"#{self.number} {self.kind} {self.path}{query}{asked} -> {self.status}"


def kind_of(method: str, path: str, query: str, headers: Mapping[str, str]) -> str:
    """The S3 operation that a path-style request is."""
    asked = dict(parse_qsl(query, keep_blank_values=True))
    bucket, _, key = path.lstrip("/").partition("/")
    match method:
        case "GET":
            return "LIST" if not key and (not bucket or "location" not in asked) else "GET"
        case "HEAD":
            return "HEAD" if key else "HEAD_BUCKET"
        case "PUT" if not key:
            return "CREATE_BUCKET"
        case "PUT" if "uploadId" in asked:
            return "UPLOAD_PART"
        case "PUT":
            return "COPY" if "x-amz-copy-source" in headers else "PUT"
        case "DELETE" if "uploadId" in asked:
            return "ABORT_MULTIPART"
        case "DELETE":
            return "DELETE" if key else "DELETE_BUCKET"
        case "POST" if "uploadId" in asked:
            return "COMPLETE_MULTIPART"
        case "POST" if "uploads" in asked:
            return "CREATE_MULTIPART"
        case "POST" if "delete" in asked:
            return "DELETE_MANY"
    return method


# ---- faults ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one request. Whether the server applied it stands with each."""

    name: ClassVar[str] = "none"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ReplyLost(Fault):
    """Applied; the connection is closed without an answer, or reset."""

    reset: bool = False

    def __str__(self) -> str:
        return f"reply lost{', connection reset' if self.reset else ''}"


@dataclass(frozen=True, slots=True)
class ResetBeforeBody(Fault):
    """Not applied: the connection is reset as soon as the head was read, also instead of `100 Continue`."""

    name: ClassVar[str] = "reset before the body"


@dataclass(frozen=True, slots=True)
class ResetAfterBody(Fault):
    """Not applied: the whole body is taken, nothing of it is forwarded, then the connection is reset."""

    name: ClassVar[str] = "reset after the body"


@dataclass(frozen=True, slots=True)
class HalfSentBody(Fault):
    """Not applied: the server gets the head and half of the body (without one: a part of the first line), then a cut.

    The client's connection is reset after its whole body was taken.
    """

    name: ClassVar[str] = "half of the body sent"


@dataclass(frozen=True, slots=True)
class TruncatedResponse(Fault):
    """Applied; the client gets the head of the answer and half of its body (without one: a part of the first line)."""

    name: ClassVar[str] = "answer cut in the middle"


@dataclass(frozen=True, slots=True)
class Hang(Fault):
    """No answer, until the client gives up or the proxy is closed. Applied only if `applied`.

    `takes_body` False: hangs as soon as the head was read, so `100 Continue` is not sent either.
    """

    applied: bool = False
    takes_body: bool = True

    def __str__(self) -> str:
        return f"hang {'once applied' if self.applied else 'in front of' if self.takes_body else 'before the body'}"


@dataclass(frozen=True, slots=True)
class Answer(Fault):
    """The proxy answers by itself with S3's error body. Applied only if `applied`: the true answer is dropped.

    `code` defaults to what S3 says with that status; a code with status 200 is S3's late error of a copy or of the
    end of a multipart upload.
    """

    status: int
    code: str | None = None
    applied: bool = False

    def __str__(self) -> str:
        return f"{self.status} {error_code(self)}{' after it was applied' if self.applied else ''}"


@dataclass(frozen=True, slots=True)
class StripHeaders(Fault):
    """Applied, but without the headers of these names (in lower case), as some proxies do to If-None-Match."""

    names: tuple[str, ...] = ("if-none-match",)

    def __str__(self) -> str:
        return f"without {', '.join(self.names)}"


_CODES = {
    400: "InvalidRequest",
    403: "AccessDenied",
    404: "NoSuchKey",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    500: "InternalError",
    503: "SlowDown",
}


def error_code(answer: Answer) -> str:
    """S3's error code of an answer."""
    return answer.code or _CODES.get(answer.status, "InternalError")


def error_body(answer: Answer, request: Request) -> bytes:
    """S3's XML for an error."""
    code = error_code(answer)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{escape(code)}</Code><Message>{escape(code)} by the fault proxy</Message>"
        f"<Resource>{escape(request.path)}</Resource><RequestId>fault{request.number}</RequestId></Error>"
    ).encode()


# ---- which request --------------------------------------------------------------------------------

When = Callable[[Request], bool]


@dataclass(slots=True)
class Plan:
    """`fault` for `times` requests in a row among those that fit `when`, after the first `skip` of them."""

    fault: Fault
    when: When | None
    skip: int
    times: int | None

    def fault_for(self, request: Request) -> Fault | None:
        if self.times == 0 or (self.when is not None and not self.when(request)):
            return None
        if self.skip > 0:
            self.skip -= 1
            return None
        if self.times is not None:
            self.times -= 1
        return self.fault


@dataclass(slots=True)
class Dice:
    """One of `faults` for one in `every` of the requests that fit `when`, by the seed and the order of arrival."""

    faults: Sequence[Fault]
    every: int
    seed: int
    when: When | None = None
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def fault_for(self, request: Request) -> Fault | None:
        if self.when is not None and not self.when(request):
            return None
        return self._random.choice(self.faults) if self._random.randrange(self.every) == 0 else None
