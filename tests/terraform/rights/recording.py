"""Records what each role asks of S3 in the runs of `role_runs.py`: python -m tests.terraform.rights.recording [--add]

Writes recorded.json beside this file: a line for each request that differs by more than numbers and ids. Buckets are
named by store id, and no header is kept, so there is no secret in it. Some requests depend on which of two processes
comes first: with --add the lines of another run join those that are there.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote

from tests.servers import s3_servers
from tests.servers.fault_proxy_rules import Request
from tests.servers.s3_servers import S3Server
from tests.terraform.rights.role_processes import PREFIX, ROLES, Roles, roles_on
from tests.terraform.rights.role_runs import RUNS

FILE = Path(__file__).parent / "recorded.json"

Recorded = dict[str, dict[str, list[str]]]  # lines by phase (see role_runs.py), and by role


@dataclass(frozen=True, order=True)
class Line:
    """A request without its numbers. `text` is what the file has: KIND STORE KEY, then "absent" or "from STORE KEY"."""

    kind: str
    store: str
    key: str
    absent: bool = False
    source: tuple[str, str] | None = None

    @property
    def text(self) -> str:
        source = "" if self.source is None else f" from {' '.join(self.source)}"
        return f"{self.kind} {self.store} {self.key}{' absent' if self.absent else ''}{source}".rstrip()

    @classmethod
    def parse(cls, text: str) -> Line:
        kind, store, *rest = text.split(" ")
        key = rest[0] if rest else ""
        source = (rest[2], rest[3]) if len(rest) == 4 else None
        return cls(kind, store, key, rest[1:] == ["absent"], source)

    @property
    def request(self) -> Request:
        """The request again, with zeros for its numbers, in a bucket with the name of the store."""
        full = f"{PREFIX}/{self.key}"
        headers = {} if self.source is None else {"x-amz-copy-source": f"{self.source[0]}/{PREFIX}/{self.source[1]}"}
        methods = {"UPLOAD_PART": "PUT", "COMPLETE_MULTIPART": "POST", "CREATE_MULTIPART": "POST", "COPY": "PUT"}
        methods |= {"LIST": "GET", "LIST_UPLOADS": "GET", "ABORT_MULTIPART": "DELETE"}
        queries = {"CREATE_MULTIPART": "uploads", "LIST": f"prefix={quote(full)}", "LIST_UPLOADS": "uploads"}
        queries |= dict.fromkeys(("UPLOAD_PART", "COMPLETE_MULTIPART", "ABORT_MULTIPART"), "uploadId=0")
        path = f"/{self.store}" if self.kind.startswith("LIST") else f"/{self.store}/{full}"
        request = Request(1, methods.get(self.kind, self.kind), path, queries.get(self.kind, ""), headers)
        request.status = 404 if self.absent else 200
        return request


def record(server: S3Server, folder: Path, say: Callable[[str], None] = lambda text: None) -> Recorded:
    """Run everything, and return what was asked."""
    found: dict[str, dict[str, set[str]]] = {}
    with roles_on(server, folder) as roles:
        for run in RUNS:
            say(run.__name__)
            run(roles)
            of_phase = found.setdefault(roles.phase, {})
            for role in ROLES:
                lines = {line_of(request, roles).text for request in roles.requests(role) if request.reached_upstream}
                of_phase.setdefault(role, set()).update(lines)
                roles.proxies[role].forget()
    return {phase: {role: sorted(lines) for role, lines in by_role.items()} for phase, by_role in found.items()}


def line_of(request: Request, roles: Roles) -> Line:
    """What the recording keeps of a request. Raises ValueError for a key outside of the stores."""
    stores = {bucket: store for store, bucket in roles.buckets.items()}
    bucket, _, full = unquote(request.path.lstrip("/")).partition("/")
    kind, query = request.kind, parse_qs(request.query, keep_blank_values=True)
    if kind == "LIST":
        kind = "LIST_UPLOADS" if "uploads" in query else kind
        return Line(kind, stores[bucket], folder_of(inside(query["prefix"][0], request)))
    source = request.headers.get("x-amz-copy-source")
    copied = None
    if source is not None:
        other, _, other_key = unquote(source).lstrip("/").partition("/")
        copied = (stores[other], without_numbers(inside(other_key, request)))
    absent = request.status == 404 and kind in ("GET", "HEAD")
    return Line(kind, stores[bucket], without_numbers(inside(full, request)), absent, copied)


def inside(full: str, request: Request) -> str:
    if not full.startswith(f"{PREFIX}/"):
        raise ValueError(f"wanted keys under {PREFIX}/ only, found {request}")
    return full.removeprefix(f"{PREFIX}/")


def without_numbers(key: str) -> str:
    """The key with zeros in place of ids and numbers."""
    key = re.sub(r"[0-9a-f]{32,}", lambda found: "0" * len(found[0]), key)
    key = re.sub(r"\d+", lambda found: "0" * len(found[0]) if len(found[0]) >= 16 else "0", key)
    return re.sub(r"^append/[0-9a-f]+/", "append/00/", key)


def folder_of(prefix: str) -> str:
    """The prefix of a listing up to its last slash, without numbers."""
    return without_numbers(prefix[: prefix.rfind("/") + 1])


def written(recorded: Recorded) -> str:
    return json.dumps(recorded, indent=1) + "\n"


def read_recorded() -> Recorded:
    """What the file has."""
    recorded: Recorded = json.loads(FILE.read_text(encoding="utf-8"))
    return recorded


def joined(one: Recorded, other: Recorded) -> Recorded:
    """The lines of both."""
    return {
        phase: {role: sorted({*by_role[role], *other.get(phase, {}).get(role, ())}) for role in by_role}
        for phase, by_role in one.items()
    }


def main(arguments: list[str]) -> int:
    with s3_servers.s3proxy() as server, tempfile.TemporaryDirectory() as folder:
        found = record(server, Path(folder), lambda text: print(text, flush=True))
    if "--add" in arguments:
        found = joined(found, read_recorded())
    FILE.write_text(written(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
