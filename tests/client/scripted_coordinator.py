"""A server that answers as a coordinator does, or as a test says: drops replies, leads no more, is something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import msgspec

from sparklog.client.cluster import Cluster
from sparklog.coordinator.http.metadata_routes import page_of
from sparklog.core.commands import ClaimCoordination, Submission
from sparklog.core.errors import AuthenticationFailed, NotController, OutcomeUnknown, SparklogError, TryAgain
from sparklog.core.types import EntryNumber
from sparklog.wire.error_messages import error_reply, http_status
from sparklog.wire.messages import CLUSTER, CONTENT_TYPE, ClusterReply, Outcome, SubmitReply, SubmitRequest
from sparklog.wire.metadata_messages import METADATA, MetadataKey, MetadataKeys


@dataclass
class ScriptedCoordinator:
    """Commits through `cluster`. `script` says what happens to the next requests; behind its end all is well.

    "drop": it is committed, and the connection ends without a reply. "lose": the same, and nothing was done.
    "away": this process leads no more. "busy": too many commands wait. "unknown": it can't say what became of it.
    "text": an answer of some other server. "torn": a reply that can't be read. "few": one that lacks an outcome.
    "empty": outcomes that say nothing. "refused": the token is not good. "hang": no answer until `let_go`.

    `hanging` is called when a request hangs.
    """

    cluster: Cluster
    script: list[str] = field(default_factory=list)
    requests: list[SubmitRequest] = field(default_factory=list)
    address: str = ""
    hanging: Callable[[], object] = lambda: None
    let_go: threading.Event = field(default_factory=threading.Event)
    shared: threading.Event = field(default_factory=threading.Event)  # set once a request has several commands
    _holds: bool = False
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def hold_until_shared(self) -> None:
        """Requests wait until one of them has several commands: those who come meanwhile must share."""
        self._holds = True

    def claim(self, epoch: int = 1) -> None:
        committer = self.cluster.connection.committer
        committer.commit_here(committer.begin(ClaimCoordination(epoch, f"scripted-{epoch}", self.address)))

    def answer(self, body: bytes) -> tuple[int, str, bytes] | None:
        """Status, content type and body; None for no reply at all."""
        request = msgspec.msgpack.decode(body, type=SubmitRequest)
        if len(request.commands) > 1:
            self.shared.set()
        if self._holds:
            self.shared.wait(60)
        with self._turn:
            self.requests.append(request)
            what = self.script.pop(0) if self.script else "reply"
        if what == "hang":
            self.hanging()
            self.let_go.wait()
        if what in ("lose", "hang"):
            return None
        if what == "text":
            return 502, "text/html", b"<html>bad gateway</html>"
        try:
            if what == "away":
                raise NotController("another process leads")
            if what == "refused":
                raise AuthenticationFailed("the token is not one of this coordinator's")
            if what == "busy":
                raise TryAgain("500 commands wait already")
            outcomes = tuple(self._commit(each.submission) for each in request.commands)
            if what == "unknown":
                raise OutcomeUnknown("it was fenced meanwhile")
        except SparklogError as error:
            return http_status(error), CONTENT_TYPE, msgspec.msgpack.encode(error_reply(error))
        if what == "drop":
            return None
        if what == "few":
            outcomes = outcomes[1:]
        if what == "empty":
            outcomes = (Outcome(),) * len(outcomes)
        reply = SubmitReply(EntryNumber(self.cluster.connection.follower.head.n), outcomes)
        return 200, CONTENT_TYPE, b"\xc1" if what == "torn" else msgspec.msgpack.encode(reply)

    def read(self, path: str) -> tuple[int, str, bytes]:
        """The reply to a GET: status, content type and body."""
        url = urlsplit(path)
        try:
            if url.path == CLUSTER:
                return 200, CONTENT_TYPE, self.described()
            if url.path == METADATA:
                return 200, CONTENT_TYPE, self._listed(dict(parse_qsl(url.query)))
            return 200, CONTENT_TYPE, bytes(self.cluster.connection.follower.store.get(url.path.removeprefix("/v1/")))
        except SparklogError as error:
            return http_status(error), CONTENT_TYPE, msgspec.msgpack.encode(error_reply(error))

    def _commit(self, submission: Submission) -> Outcome:
        try:
            return Outcome(self.cluster.connection.committer.commit_here(submission))
        except SparklogError as error:
            return Outcome(error=error_reply(error))

    def described(self) -> bytes:
        state = self.cluster.connection.follower.state
        url = self.cluster.connection.url
        return msgspec.msgpack.encode(ClusterReply(state.chain_id, url, EntryNumber(state.n), state.coordinator))

    def _listed(self, fields: dict[str, str]) -> bytes:
        store = self.cluster.connection.follower.store
        page, more = page_of(store, fields["prefix"], fields.get("after", ""), int(fields["limit"]))
        keys = tuple(MetadataKey(stored.key, stored.size_bytes, stored.modified_ms) for stored in page)
        return msgspec.msgpack.encode(MetadataKeys("", EntryNumber(0), keys, more))


@contextmanager
def scripted_coordinator(cluster: Cluster) -> Iterator[ScriptedCoordinator]:
    """A server at a free port; the cluster is not claimed yet."""
    scripted = ScriptedCoordinator(cluster)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            answer = scripted.answer(self.rfile.read(int(self.headers["content-length"])))
            if answer is None:
                self.close_connection = True
                return
            self._send(*answer)

        def do_GET(self) -> None:
            self._send(*scripted.read(self.path))

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scripted.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, name="scripted-coordinator")
    thread.start()
    try:
        yield scripted
    finally:
        scripted.let_go.set()
        server.shutdown()
        thread.join()
        server.server_close()
