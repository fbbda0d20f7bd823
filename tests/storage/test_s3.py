"""What an S3 store makes of each answer of a server: created, taken, unknown, refused, cut, or no S3's at all."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientConnectorCertificateError
from botocore.exceptions import SSLError

from sparklog.core.errors import (
    Damaged,
    InvalidInput,
    KeyExists,
    OutcomeUnknown,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store
from sparklog.storage.s3.answers import sorted_failure
from tests.servers.local_server import free_port
from tests.storage.scripted_s3 import HANG, RESET, Reply, Request, ScriptedS3, Step, refusal, scripted_s3

CREATED = Reply()
TAKEN = refusal(412, "PreconditionFailed")
SLOW_DOWN = refusal(503, "SlowDown")
IN_PROGRESS = refusal(409, "ConditionalRequestConflict")
NOT_FOUND = refusal(404, "NoSuchKey")
PAGE = Reply(200, b"<html><body>Welcome</body></html>", {"Content-Type": "text/html"})
HTML_404 = Reply(404, b"<html>nothing here</html>", {"Content-Type": "text/html"})
MIB = 1024 * 1024
BODIES = [b"small", bytes(MIB)]  # by s3fs's client, and by botocore's


def store_at(server: ScriptedS3, **settings: str) -> ObjectStore:
    return open_store("s3://bucket/cluster", {**server.settings, **settings})


def own(requests: list[Request]) -> Reply:
    """The answer to a HEAD when one's own write landed."""
    put = next(
        each
        for each in reversed(requests)
        if each.method in ("PUT", "POST") and "x-amz-meta-sparklog-write" in each.headers
    )
    return Reply(200, headers={"ETag": '"e"', "x-amz-meta-sparklog-write": put.headers["x-amz-meta-sparklog-write"]})


def other(requests: list[Request]) -> Reply:
    return Reply(200, headers={"ETag": '"e"', "x-amz-meta-sparklog-write": "0" * 32})


def whole(body: bytes, **headers: str) -> Reply:
    return Reply(206, body, {"ETag": '"e"', "Content-Range": f"bytes 0-{len(body) - 1}/{len(body)}", **headers})


# ---- put-if-absent --------------------------------------------------------------------------------


# M: F-01
@pytest.mark.parametrize("body", BODIES, ids=len)
def test_a_put_is_one_conditional_request_that_waits_for_no_permission(body: bytes) -> None:
    with scripted_s3(CREATED) as server:
        store_at(server).put_if_absent("a", body)
        (request,) = server.requests
    assert (request.method, request.target, request.body) == ("PUT", "/bucket/cluster/a", body)
    assert request.headers["if-none-match"] == "*"
    assert "expect" not in request.headers


@pytest.mark.parametrize("body", BODIES, ids=len)
def test_a_taken_key_is_known_by_its_status_alone(body: bytes) -> None:
    for taken in (TAKEN, Reply(412, b"", {})):
        with scripted_s3(taken) as server:
            with pytest.raises(KeyExists):
                store_at(server).put_if_absent("a", body)
            assert [each.method for each in server.requests] == ["PUT"]


@pytest.mark.parametrize("body", BODIES, ids=len)
@pytest.mark.parametrize(
    "unclear",
    [
        SLOW_DOWN,
        IN_PROGRESS,
        RESET,
        refusal(500, "InternalError"),
        HTML_404,
        PAGE,
        Reply(502, b"<html>", {}),
        NOT_FOUND,
    ],
    ids=["503", "409", "reset", "500", "html 404", "html 200", "html 502", "404"],
)
def test_the_same_bytes_go_again_until_the_answer_is_definite(unclear: Step, body: bytes) -> None:
    with scripted_s3(unclear, unclear, CREATED) as server:
        store_at(server).put_if_absent("a", body)
        assert [each.body for each in server.requests] == [body] * 3
        assert len({each.headers["x-amz-meta-sparklog-write"] for each in server.requests}) == 1


@pytest.mark.parametrize("body", BODIES, ids=len)
@pytest.mark.parametrize("lost", [RESET, HANG, SLOW_DOWN, IN_PROGRESS], ids=["reset", "hang", "503", "409"])
def test_after_a_lost_answer_ones_own_object_is_a_success(lost: Step, body: bytes) -> None:
    with scripted_s3(lost, TAKEN, own) as server:
        store_at(server, timeout_ms="6000").put_if_absent("a", body)
        assert [each.method for each in server.requests] == ["PUT", "PUT", "HEAD"]


@pytest.mark.parametrize("found", [other, NOT_FOUND, refusal(403, "AccessDenied")], ids=["other", "gone", "secret"])
def test_after_a_lost_answer_anothers_object_is_a_taken_key(found: Step) -> None:
    with scripted_s3(RESET, TAKEN, found) as server, pytest.raises(KeyExists):
        store_at(server).put_if_absent("a", b"body")


def test_a_kept_connection_that_ends_without_an_answer_is_not_written_to_again_in_secret() -> None:
    with scripted_s3(CREATED, RESET, TAKEN, own) as server:
        store = store_at(server)
        store.put_if_absent("a", b"first")
        store.put_if_absent("b", b"second")
        assert [each.method for each in server.requests] == ["PUT", "PUT", "PUT", "HEAD"]


@pytest.mark.parametrize("body", BODIES, ids=len)
@pytest.mark.parametrize(
    "silent", [HANG, SLOW_DOWN, IN_PROGRESS, RESET, PAGE], ids=["hang", "503", "409", "reset", "html"]
)
def test_a_put_without_a_definite_answer_ends_at_its_deadline_as_unknown(silent: Step, body: bytes) -> None:
    with scripted_s3(silent) as server, pytest.raises(OutcomeUnknown, match=r"in (900 ms|1\.9 seconds)"):
        store_at(server, timeout_ms="900").put_if_absent("a", body)


def test_a_refusal_after_a_lost_answer_leaves_the_outcome_unknown() -> None:
    with scripted_s3(RESET, refusal(403, "AccessDenied")) as server, pytest.raises(OutcomeUnknown):
        store_at(server).put_if_absent("a", b"body")


def test_a_put_that_reached_nobody_was_surely_not_done() -> None:
    settings = {"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1", "timeout_ms": "30000"}
    for body in BODIES:
        store = open_store("s3://bucket", {**settings, "endpoint_url": f"http://127.0.0.1:{free_port()}"})
        with pytest.raises(StoreUnavailable, match="Connection refused"):
            store.put_if_absent("a", body)


def test_a_tls_error_is_no_proof_that_nothing_was_sent_but_a_refused_certificate_is() -> None:
    endpoint = "https://store"
    broken = ssl.SSLError(1, "bad record mac")
    assert sorted_failure(SSLError(endpoint_url=endpoint, error=broken)).in_doubt
    to: Any = SimpleNamespace(host="store", port=443, is_ssl=True)
    refused = ClientConnectorCertificateError(to, ssl.SSLCertVerificationError(1, "self-signed certificate"))
    assert not sorted_failure(SSLError(endpoint_url=endpoint, error=refused)).in_doubt


REFUSALS: list[tuple[Step, type[SparklogError], str]] = [
    (refusal(404, "NoSuchBucket"), InvalidInput, "found no bucket 'bucket' there"),
    (refusal(403, "AccessDenied"), StoreReadOnly, "may not write"),
    (refusal(403, "RequestTimeTooSkewed"), InvalidInput, "clock"),
    (refusal(403, "InvalidAccessKeyId"), InvalidInput, "access keys are not accepted"),
    (refusal(403, "SignatureDoesNotMatch"), InvalidInput, "access keys are not accepted"),
    (refusal(400, "ExpiredToken"), InvalidInput, "access keys are not accepted"),
    (refusal(507, "InsufficientStorage"), StoreFull, "no room"),
    (refusal(501, "NotImplemented", "If-None-Match"), InvalidInput, "If-None-Match"),
    (refusal(405, "MethodNotAllowed"), InvalidInput, "MethodNotAllowed"),
]


@pytest.mark.parametrize(("answer", "error", "says"), REFUSALS, ids=lambda each: getattr(each, "body", None) and "")
def test_each_refusal_of_a_write_is_one_sentence_and_nothing_is_tried_again(
    answer: Step, error: type[SparklogError], says: str
) -> None:
    calls: list[Callable[[ObjectStore], object]] = [
        lambda store: store.put_if_absent("a", b"small"),
        lambda store: store.put_if_absent("a", bytes(MIB)),
        lambda store: store.delete("a"),
    ]
    for call in calls:
        with scripted_s3(answer) as server:
            with pytest.raises(error, match=says) as raised:
                call(store_at(server))
            assert len(server.requests) == 1
            assert server.endpoint_url in str(raised.value)


def test_an_upload_that_finds_its_name_taken_looks_whether_it_was_sent_twice() -> None:
    with scripted_s3(TAKEN, own) as server:
        upload(store_at(server), 100)
    with scripted_s3(TAKEN, other) as server, pytest.raises(KeyExists):
        upload(store_at(server), 100)


# ---- reading --------------------------------------------------------------------------------------


READS: list[Callable[[ObjectStore], object]] = [
    lambda store: bytes(store.get("a")),
    lambda store: store.get_ranges("a", [(0, 4)]),
    lambda store: store.size("a"),
    lambda store: list(store.list_keys("")),
    lambda store: store.first_key_after("a/", ""),
]


@pytest.mark.parametrize(
    "passing",
    [SLOW_DOWN, RESET, refusal(500, "InternalError"), Reply(206, b"bo", length=4, cut=True), HTML_404],
    ids=["503", "reset", "500", "cut", "html 404"],
)
def test_a_read_is_repeated_until_it_is_whole(passing: Step) -> None:
    with scripted_s3(passing, passing, whole(b"body")) as server:
        assert bytes(store_at(server).get("a")) == b"body"
        assert len(server.requests) == 3


def test_a_body_that_is_cut_each_time_is_an_unavailable_store_not_a_short_object() -> None:
    cut = Reply(206, b"bo", {"ETag": '"e"', "Content-Range": "bytes 0-3/4"}, length=4, cut=True)
    with scripted_s3(cut) as server, pytest.raises(StoreUnavailable, match="cut at byte 2 of 4"):
        store_at(server).get("a")
    with scripted_s3(cut) as server, pytest.raises(StoreUnavailable, match="cut at byte 2 of 4"):
        store_at(server).get_ranges("a", [(0, 4)])


def test_an_object_of_another_size_at_the_second_try_is_damaged() -> None:
    cut = Reply(206, b"bo", {"ETag": '"e"', "Content-Range": "bytes 0-9/10"}, length=10, cut=True)
    with scripted_s3(cut, whole(b"longer")) as server, pytest.raises(Damaged, match=r"wanted 10 bytes of a .* found 6"):
        store_at(server).get("a")


def test_an_object_that_ends_before_a_range_is_damaged() -> None:
    with scripted_s3(whole(b"body")) as server, pytest.raises(Damaged, match="ends at byte 4"):
        store_at(server).get_ranges("a", [(0, 5)])


def test_a_page_without_keys_is_not_the_last_one_if_it_says_so() -> None:
    def page(keys: str, token: str = "") -> Reply:
        more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
        text = f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}{keys}"
        return Reply(200, f"<ListBucketResult>{text}</ListBucketResult>".encode(), {"Content-Type": "application/xml"})

    key = "<Key>cluster/a/b</Key><Size>4</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    with scripted_s3(page("", "more"), page(f"<Contents>{key}</Contents>")) as server:
        assert store_at(server).first_key_after("a/", "a/a") == "a/b"
        assert ["continuation-token=more" in each.target for each in server.requests] == [False, True]
    with scripted_s3(page("", "more"), page("")) as server:
        assert store_at(server).first_key_after("a/", "a/a") is None


def test_a_server_that_ignores_ranges_is_read_all_the_same() -> None:
    with scripted_s3(Reply(200, b"the whole body")) as server:
        store = store_at(server)
        assert bytes(store.get("a")) == b"the whole body"
        assert [bytes(part) for part in store.get_ranges("a", [(4, 9)])] == [b"whole"]


@pytest.mark.parametrize(
    "answer",
    [
        Reply(206, b"body", {"ETag": '"e"', "Content-Range": "bytes 8-11/12"}),
        Reply(206, b"body", {"ETag": '"e"'}),
    ],
    ids=["another range", "no range"],
)
def test_a_part_that_was_not_asked_for_is_no_answer(answer: Reply) -> None:
    with scripted_s3(answer) as server, pytest.raises(StoreUnavailable, match="does not answer as S3 does"):
        store_at(server).get_ranges("a", [(0, 4)])


def test_a_range_that_is_refused_though_it_is_there_is_no_answer() -> None:
    there = Reply(200, headers={"ETag": '"e"'}, length=100)
    with (
        scripted_s3(*[refusal(416, "InvalidRange"), there] * 20) as server,
        pytest.raises(StoreUnavailable, match="cut at byte 0 of 4"),
    ):
        store_at(server).get_ranges("a", [(0, 4)])


def test_ranges_that_lie_close_together_share_a_request() -> None:
    body = bytes(range(256)) * 4
    with scripted_s3(whole(body)) as server:
        found = store_at(server).get_ranges("a", [(500, 1024), (0, 100), (90, 200)])
        assert [bytes(part) for part in found] == [body[500:1024], body[:100], body[90:200]]
        assert [each.headers["range"] for each in server.requests] == ["bytes=0-1023"]


@pytest.mark.parametrize("read", READS)
def test_a_read_that_hangs_ends_at_its_deadline(read: Callable[[ObjectStore], object]) -> None:
    with scripted_s3(HANG) as server, pytest.raises(StoreUnavailable):
        read(store_at(server, timeout_ms="600"))


@pytest.mark.parametrize("read", READS)
def test_a_missing_bucket_is_no_missing_key(read: Callable[[ObjectStore], object]) -> None:
    with scripted_s3(refusal(404, "NoSuchBucket")) as server, pytest.raises(InvalidInput, match="found no bucket"):
        read(store_at(server))


@pytest.mark.parametrize("read", READS)
def test_a_web_page_is_no_answer(read: Callable[[ObjectStore], object]) -> None:
    for page in (PAGE, HTML_404):
        with scripted_s3(page) as server, pytest.raises(StoreUnavailable, match="does not answer as S3 does"):
            read(store_at(server))


@pytest.mark.parametrize("read", READS)
def test_keys_that_may_not_read_are_named_as_the_reason(read: Callable[[ObjectStore], object]) -> None:
    with scripted_s3(refusal(403, "AccessDenied")) as server, pytest.raises(StoreAccessDenied, match="may not read"):
        read(store_at(server))


# ---- uploads in parts -----------------------------------------------------------------------------


BEGUN = Reply(200, b"<InitiateMultipartUploadResult><UploadId>u/1</UploadId></InitiateMultipartUploadResult>")
COMPLETED = Reply(200, b"<CompleteMultipartUploadResult><ETag>&quot;e&quot;</ETag></CompleteMultipartUploadResult>")
PART = CREATED
GONE = refusal(404, "NoSuchUpload")


def upload(store: ObjectStore, size_bytes: int) -> None:
    with store.upload("a") as open_upload:
        open_upload.write(bytes(size_bytes))
        open_upload.publish()


def test_a_large_upload_is_completed_only_if_the_key_is_absent() -> None:
    with scripted_s3(BEGUN, PART, PART, PART, COMPLETED) as server:
        upload(store_at(server), 17 * MIB)
        begun, *parts, completed = server.requests
        assert sorted((each.method, len(each.body)) for each in parts) == [
            ("PUT", MIB),
            ("PUT", 8 * MIB),
            ("PUT", 8 * MIB),
        ]
        assert all("uploadId=u%2F1" in each.target for each in [*parts, completed])
        assert (completed.method, completed.headers["if-none-match"]) == ("POST", "*")
        assert "x-amz-meta-sparklog-write" in begun.headers


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([TAKEN], KeyExists),
        ([GONE], StoreUnavailable),
        ([RESET, GONE, own], None),
        ([RESET, TAKEN, own], None),
        ([RESET, TAKEN, other], KeyExists),
        ([RESET, GONE, NOT_FOUND], StoreUnavailable),
        ([refusal(200, "InternalError"), COMPLETED], None),
        ([refusal(200, "InternalError"), GONE, own], None),
        ([PAGE, COMPLETED], None),
        ([Reply(200, COMPLETED.body, length=1_000), TAKEN, own], None),
        ([IN_PROGRESS, COMPLETED], None),
    ],
)
def test_the_outcome_of_a_completion_is_told_apart(answers: list[Step], error: type[Exception] | None) -> None:
    with scripted_s3(BEGUN, PART, PART, *answers, Reply(204)) as server:
        if error is None:
            upload(store_at(server), 9 * MIB)
            assert server.requests[-1].method != "DELETE"
            assert len(server.requests) == 3 + len(answers)
        else:
            with pytest.raises(error):
                upload(store_at(server), 9 * MIB)
            assert server.requests[-1].method == "DELETE"


def test_a_part_is_sent_again_and_an_upload_given_up_is_aborted() -> None:
    with scripted_s3(BEGUN, RESET, SLOW_DOWN, PART, PART, COMPLETED) as server:
        upload(store_at(server), 9 * MIB)
    with scripted_s3(BEGUN, refusal(403, "AccessDenied"), Reply(204)) as server:
        with pytest.raises(StoreReadOnly):
            upload(store_at(server), 9 * MIB)
        assert server.requests[-1].method == "DELETE"
