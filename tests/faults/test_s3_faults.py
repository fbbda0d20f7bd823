"""Every request of an append, a read, a snapshot and a cluster init fails in every way that a network or S3 can fail.

An operation runs once without a fault, to learn its requests; then once for each kind of request, with one spoilt. It
must succeed, or raise an error that says correctly whether it landed; then the log equals the model, and the next
append and read go on. All of this runs on MiniStack, and every fault meets one operation at least. With --campaign it
meets every operation, on S3Proxy too, with many more seeds for the dice, and every request is spoilt, not only one of
each kind.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet

from sparklog.chain.commit.committer import new_command_id
from sparklog.client import bootstrap
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import append_command, plan_write
from sparklog.core.commands import Submission
from sparklog.core.errors import (
    ClusterAlreadyExists,
    KeyExists,
    Landed,
    OutcomeUnknown,
    SparklogError,
    StoreUnavailable,
)
from sparklog.core.state_invariants import check
from sparklog.log.read import object_reader
from sparklog.storage.open_store import open_store
from sparklog.storage.s3 import client
from sparklog.storage.s3 import upload as s3_upload
from sparklog.storage.s3.client import forget_clients
from sparklog.storage.s3.upload import PART_BYTES
from tests.faults.modelled_log import PARTITIONS, TOPIC, ModelledLog
from tests.servers.fault_proxy import FaultProxy
from tests.servers.fault_proxy_rules import (
    Answer,
    Fault,
    HalfSentBody,
    Hang,
    ReplyLost,
    Request,
    ResetAfterBody,
    ResetBeforeBody,
    TruncatedResponse,
    When,
)
from tests.servers.s3_servers import S3Server

T = TypeVar("T")

pytestmark = pytest.mark.slow

HASTY_MS = 600  # a hang lasts a third of that, then another try follows
PATIENT_MS = 30_000  # elsewhere: a busy machine is not a fault
HASTY_PARTS_MS = 3_000  # of an upload, whose parts are larger; a hang lasts a third of that
GIVE_UP_MS = 500  # of an append whose requests are all spoilt
SEEDS = 1

NOT_APPLIED: list[Fault] = [
    ResetBeforeBody(),
    ResetAfterBody(),
    HalfSentBody(),
    *(Answer(status) for status in (500, 503, 409, 404, 412)),
]
APPLIED: list[Fault] = [
    ReplyLost(),
    ReplyLost(reset=True),
    TruncatedResponse(),
    *(Answer(status, applied=True) for status in (500, 503, 409, 404, 412)),
]
HANGS: list[Fault] = [Hang(), Hang(applied=True)]
REFUSED: list[Fault] = [Answer(403)]
EVERY_FAULT = [*NOT_APPLIED, *APPLIED, *HANGS, *REFUSED]
FAULTS_OF_A_READ: list[Fault] = [
    ResetBeforeBody(),
    TruncatedResponse(),
    Hang(),
    *(Answer(status) for status in (503, 404, 403)),
]
SERVERS = ["ministack"]
# With --campaign.
SERVERS_OF_A_CAMPAIGN = ["ministack", "s3proxy"]
SEEDS_OF_A_CAMPAIGN = 50
FAULTS_OF_A_READ_IN_A_CAMPAIGN: list[Fault] = [*FAULTS_OF_A_READ, ReplyLost(), Answer(500), Answer(409)]
FAULTS_OF_SMALL_OBJECTS: list[Fault] = [ReplyLost(), HalfSentBody(), Answer(503), Answer(412), Hang(applied=True)]
FAULTS_OF_PARTS: list[Fault] = [
    ReplyLost(reset=True),
    ResetBeforeBody(),
    HalfSentBody(),
    TruncatedResponse(),
    Hang(),
    *(Answer(503, applied=applied) for applied in (False, True)),
    *(Answer(200, "InternalError", applied=applied) for applied in (False, True)),  # S3 says this late
]
# What a copy meets only with --campaign: its parts are sent as those of an upload.
FAULTS_OF_AN_UPLOAD: list[Fault] = [
    ResetBeforeBody(),
    HalfSentBody(),
    TruncatedResponse(),
    Answer(503, applied=True),
    Answer(200, "InternalError", applied=True),
]
FAULTS_THAT_STAY: list[Fault] = [ReplyLost(reset=True), Hang(applied=True), Answer(503)]


def spoilt_by(faults: Sequence[Fault], *, only_in_campaign: Sequence[Fault]) -> list[Fault | ParameterSet]:
    """The faults that an operation meets, those that something like them meets as well only with --campaign."""
    return [pytest.param(each, marks=pytest.mark.campaign) if each in only_in_campaign else each for each in faults]


@dataclass(frozen=True)
class Spoilt:
    """A bucket of an S3 server behind the proxy."""

    proxy: FaultProxy
    bucket: str
    every_request: bool  # whether every request is spoilt, or one of each kind

    def storage(self, timeout_ms: int = PATIENT_MS) -> dict[str, str]:
        """Settings for a client whose requests take at most this long."""
        return {"metadata.endpoint_url": self.proxy.url, "metadata.timeout_ms": str(timeout_ms)}

    def new_url(self) -> str:
        return f"s3://{self.bucket}/{uuid.uuid4().hex}"

    def new_log(self) -> ModelledLog:
        return ModelledLog.create(self.new_url(), self.storage())

    def connect(self, log: ModelledLog) -> Cluster:
        return connect(log.url, storage=self.storage())

    def connect_to_meet(self, fault: Fault, log: ModelledLog) -> Cluster:
        """Connect with a client that soon sees the end of a hang."""
        timeout_ms = HASTY_MS if isinstance(fault, Hang) else PATIENT_MS
        while True:
            try:
                return connect(log.url, storage=self.storage(timeout_ms))
            except StoreUnavailable:  # a busy machine was too slow for the hasty client
                timeout_ms *= 2

    def requests_of(self, operation: Callable[[], object]) -> Sequence[Request]:
        """The requests of `operation` when nothing goes wrong."""
        self.proxy.forget()
        operation()
        return self.proxy.requests

    @contextmanager
    def spoiling(self, fault: Fault, at: int, times: int | None = 1) -> Iterator[None]:
        """Spoil request `at`, counted from 0, `times` in all (None: all that follow)."""
        self.proxy.forget()
        self.proxy.plan(fault, _can_meet(fault), skip=at, times=times)
        try:
            yield
        finally:
            self.proxy.clear()

    def told(self) -> str:
        return "\n".join(f"{each}{f'   <- {each.fault}' if each.fault else ''}" for each in self.proxy.requests)

    def to_spoil(self, requests: Sequence[Request]) -> Sequence[int]:
        """The numbers of the requests to spoil: the first of each kind and folder; in a campaign all."""
        first: dict[tuple[str, str], int] = {}
        for at, each in enumerate(requests):
            first.setdefault((each.kind, each.key.partition("/")[2][:9]), at)  # meta/log/, meta/void, append/…
        return range(len(requests)) if self.every_request else sorted(first.values())

    def compare(self, log: ModelledLog, error: SparklogError | None) -> None:
        """Compare the log with the model, after an operation that ended with `error`."""
        spoilt = self.told()
        try:
            log.check()
        except (AssertionError, SparklogError) as different:
            raise AssertionError(f"{different}\nafter {error!r} and these requests:\n{spoilt}") from different


def patiently(operation: Callable[[], T]) -> T:
    """Run it again if a busy machine was too slow for the hasty client."""
    while True:
        with suppress(StoreUnavailable):
            return operation()


def _can_meet(fault: Fault) -> When | None:
    """412 answers a condition, and only a PUT here has one."""
    return (lambda request: request.method == "PUT") if isinstance(fault, Answer) and fault.status == 412 else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The additional cases of a campaign."""
    campaign = metafunc.config.getoption("--campaign")
    if "running" in metafunc.fixturenames:
        metafunc.parametrize("running", SERVERS_OF_A_CAMPAIGN if campaign else SERVERS, indirect=True, scope="module")
    if "fault_of_a_read" in metafunc.fixturenames:
        faults = FAULTS_OF_A_READ_IN_A_CAMPAIGN if campaign else FAULTS_OF_A_READ
        metafunc.parametrize("fault_of_a_read", faults, ids=str)
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(SEEDS_OF_A_CAMPAIGN if campaign else SEEDS))


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[Spoilt]:
    """One proxy for all tests of a server: a client for each address would cost more than the tests."""
    server: S3Server = request.getfixturevalue(request.param)
    with pytest.MonkeyPatch.context() as patch, FaultProxy(server.endpoint_url) as proxy:
        for name, value in {**server.variables, "AWS_ENDPOINT_URL": proxy.url}.items():
            patch.setenv(name, value)
        # A probe is slow, and does not matter here.
        patch.setattr(bootstrap, "check_store", lambda store, probe_id: None)
        yield Spoilt(proxy, server.new_bucket(), request.config.getoption("--campaign"))
        forget_clients()


@pytest.fixture
def s3(running: Spoilt) -> Iterator[Spoilt]:
    yield running
    running.proxy.clear()


# ---- an append ------------------------------------------------------------------------------------


# M: S-03 (loses)
@pytest.mark.parametrize(
    "fault",
    spoilt_by(
        EVERY_FAULT,
        only_in_campaign=[
            *(ReplyLost(), ResetBeforeBody(), HalfSentBody(), TruncatedResponse()),
            *(Answer(500), *(Answer(status, applied=True) for status in (500, 503, 404))),
        ],
    ),
    ids=str,
)
def test_append_with_any_one_request_spoilt_leaves_the_log_as_its_writer_was_told(s3: Spoilt, fault: Fault) -> None:
    log = s3.new_log()
    with s3.connect_to_meet(fault, log) as writer, s3.connect(log) as other:
        assert log.append(other, PATIENT_MS) is None
        requests = s3.requests_of(lambda: log.append(other, PATIENT_MS))
        assert Counter(each.kind for each in requests) == Counter(PUT=3, GET=4)
        for at in s3.to_spoil(requests):
            patiently(writer.connection.follower.catch_up)
            with s3.spoiling(fault, at):
                error = log.append(writer, PATIENT_MS)
            s3.compare(log, error)
            if fault not in (*REFUSED, *HANGS):  # what passes by itself does not concern the caller
                assert error is None, f"{error!r}\n{s3.told()}"
            assert log.append(other, PATIENT_MS) is None
        log.check()
    with s3.connect(log) as anew:
        log.check_all(anew)
        check(anew.connection.follower.state)


@pytest.mark.parametrize("fault", spoilt_by(FAULTS_THAT_STAY, only_in_campaign=[Answer(503)]), ids=str)
def test_append_ends_at_its_deadline_when_nothing_gets_through_any_more(s3: Spoilt, fault: Fault) -> None:
    log = s3.new_log()
    with s3.connect_to_meet(Hang(), log) as writer, s3.connect(log) as other:
        requests = s3.requests_of(lambda: log.append(other, PATIENT_MS))
        for at in s3.to_spoil(requests):
            patiently(writer.connection.follower.catch_up)
            with s3.spoiling(fault, at, times=None):
                error = log.append(writer, GIVE_UP_MS)
            assert error is not None, s3.told()
            sent = any(each.method == "PUT" and "/meta/log/" in each.path for each in s3.proxy.requests)
            assert error.landed is (Landed.UNKNOWN if sent else Landed.NO), f"{error!r}\n{s3.told()}"
            s3.compare(log, error)
            assert log.append(other, PATIENT_MS) is None
        log.check()
    with s3.connect(log) as anew:
        log.check_all(anew)


# M: I-03 (loses)
@pytest.mark.parametrize("fault", FAULTS_THAT_STAY, ids=str)
def test_append_in_doubt_that_is_sent_again_is_there_once(s3: Spoilt, fault: Fault) -> None:
    log = s3.new_log()
    with s3.connect(log) as patient, s3.connect_to_meet(Hang(), log) as writer:
        state = patient.connection.newest_state()
        addresses = patient.connection.addresses(state)
        plan = plan_write(state, addresses, new_command_id(), topic=TOPIC, compression=None, now_ms=1)
        rows = pa.record_batch({"value": [b"once"], "partition": pa.array([0], pa.int32())})
        command = append_command(plan, [upload_task_rows(plan, [rows])])
        assert command is not None
        with s3.spoiling(fault, 0, times=None), pytest.raises(OutcomeUnknown) as caught:
            writer.connection.committer.submit(Submission(plan.command_id, plan.n0, command), GIVE_UP_MS)
        assert caught.value.landed is Landed.UNKNOWN
    again = Submission(plan.command_id, plan.n0, command, in_doubt=True)
    with s3.connect(log) as anew:
        first = anew.connection.committer.submit(again, PATIENT_MS)
        assert anew.connection.committer.submit(again, PATIENT_MS) == first
        assert anew.read(TOPIC, partition=0, columns=["value"])["value"].to_pylist() == [b"once"]


@pytest.mark.parametrize("fault", spoilt_by(FAULTS_OF_PARTS, only_in_campaign=[Hang()]), ids=str)
def test_upload_in_parts_with_any_one_request_spoilt_is_whole_under_its_key(s3: Spoilt, fault: Fault) -> None:
    timeout_ms = HASTY_PARTS_MS if isinstance(fault, Hang) else PATIENT_MS
    store = open_store(s3.new_url(), {"endpoint_url": s3.proxy.url, "timeout_ms": str(timeout_ms)})
    body = random.Random(1).randbytes(PART_BYTES + 1)

    def upload(key: str) -> None:
        with store.upload(key) as parts:
            parts.write(body)
            parts.publish()

    requests = s3.requests_of(lambda: upload("whole"))
    kinds = Counter(each.kind for each in requests)
    assert kinds == Counter(CREATE_MULTIPART=1, UPLOAD_PART=2, COMPLETE_MULTIPART=1)
    for at in s3.to_spoil(requests):
        with s3.spoiling(fault, at):
            error = _error_of(upload, f"spoilt-{at}")
        assert error is None, f"{error!r}\n{s3.told()}"
        assert bytes(store.get(f"spoilt-{at}")) == body
        with pytest.raises(KeyExists):
            upload(f"spoilt-{at}")


# M: S-08 (loses)
@pytest.mark.parametrize("fault", spoilt_by(FAULTS_OF_PARTS, only_in_campaign=FAULTS_OF_AN_UPLOAD), ids=str)
def test_copy_with_any_one_request_spoilt_is_whole_under_its_key(
    s3: Spoilt, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try ends after HASTY_PARTS_MS / 3, so that a hang is short; the copy may take PATIENT_MS."""
    monkeypatch.setattr(s3_upload, "COPIED_BYTES", PART_BYTES)
    url, settings = s3.new_url(), {"endpoint_url": s3.proxy.url, "timeout_ms": str(PATIENT_MS)}
    store = open_store(url, settings)
    body = random.Random(1).randbytes(PART_BYTES + 1)
    store.put_if_absent("source", body)
    requests = s3.requests_of(lambda: store.copy_from(store, "source", "whole"))
    assert Counter(each.kind for each in requests) == Counter(
        GET=1, CREATE_MULTIPART=1, UPLOAD_PART=2, COMPLETE_MULTIPART=1
    )
    if isinstance(fault, Hang):
        monkeypatch.setattr(client, "_TRIES_PER_TIMEOUT", 3 * PATIENT_MS / HASTY_PARTS_MS)
        store = open_store(url, {**settings, "timeout_ms": str(PATIENT_MS + 1)})  # with a client of its own
    for at in s3.to_spoil(requests):
        with s3.spoiling(fault, at):
            error = _error_of(store.copy_from, store, "source", f"spoilt-{at}")
        assert error is None, f"{error!r}\n{s3.told()}"
        assert bytes(store.get(f"spoilt-{at}")) == body


# ---- opening, reading, looking up -----------------------------------------------------------------


def test_read_with_any_one_request_spoilt_gives_the_right_rows_or_an_error(
    s3: Spoilt, fault_of_a_read: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = fault_of_a_read
    log = s3.new_log()
    with s3.connect(log) as writer:
        assert log.append(writer, PATIENT_MS) is None
        assert log.append(writer, PATIENT_MS) is None
        writer.connection.committer.snapshots.write()
    log.check()

    def open_and_read() -> None:
        """Read as a new process does: all rows, and the first offset at or after a time."""
        monkeypatch.setattr(object_reader, "_cache", object_reader._IndexCache(object_reader.CACHED_INDEXES))
        with s3.connect_to_meet(fault, log) as reader:
            for partition in range(PARTITIONS):
                rows = reader.read(TOPIC, partition=partition, columns=["value"])
                assert rows["value"].to_pylist() == log.expected(partition), s3.told()
            assert reader.offset_for_time(TOPIC, 0, 1) == 0, s3.told()

    requests = patiently(lambda: s3.requests_of(open_and_read))
    for at in s3.to_spoil(requests):
        with s3.spoiling(fault, at):
            error = _error_of(open_and_read)
        if error is not None:
            assert error.landed is Landed.NO
            passes_by_itself = not isinstance(fault, Hang) and fault not in (Answer(403), Answer(404))
            assert not passes_by_itself, f"{error!r}\n{s3.told()}"
    patiently(open_and_read)


def _error_of(operation: Callable[..., object], *given: object, **named: object) -> SparklogError | None:
    try:
        operation(*given, **named)
    except SparklogError as error:
        return error
    return None


# ---- other operations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", spoilt_by(FAULTS_OF_SMALL_OBJECTS, only_in_campaign=[HalfSentBody(), Answer(503)]), ids=str
)
def test_snapshot_with_any_one_request_spoilt_is_whole_or_not_there(s3: Spoilt, fault: Fault) -> None:
    log = s3.new_log()
    with s3.connect_to_meet(fault, log) as hasty, s3.connect(log) as other:
        assert log.append(other, PATIENT_MS) is None
        count = len(s3.requests_of(other.connection.committer.snapshots.write))
        for at in range(count):
            assert log.append(other, PATIENT_MS) is None
            patiently(hasty.connection.follower.catch_up)
            with s3.spoiling(fault, at), suppress(StoreUnavailable, OutcomeUnknown):
                hasty.connection.committer.snapshots.write()
            with s3.connect(log) as anew:
                assert anew.connection.follower.state.n == other.connection.follower.state.n, s3.told()
        other.connection.committer.snapshots.write()
    log.check()
    with s3.connect(log) as anew:
        log.check_all(anew)


@pytest.mark.parametrize(
    "fault", spoilt_by(FAULTS_OF_SMALL_OBJECTS, only_in_campaign=[Answer(412), Hang(applied=True)]), ids=str
)
def test_cluster_init_with_any_one_request_spoilt_makes_the_cluster_or_says_why_not(s3: Spoilt, fault: Fault) -> None:
    storage = s3.storage(HASTY_MS if isinstance(fault, Hang) else PATIENT_MS)
    count = len(s3.requests_of(lambda: init_cluster(s3.new_url(), storage=storage)))
    for at in range(count):
        url = s3.new_url()
        with s3.spoiling(fault, at):
            error = _error_of(init_cluster, url, storage=storage)
        if error is not None:
            assert isinstance(error, (StoreUnavailable, OutcomeUnknown)), f"{error!r}\n{s3.told()}"
            with suppress(ClusterAlreadyExists):
                init_cluster(url, storage=s3.storage())
        with connect(url, storage=s3.storage()) as cluster:
            assert cluster.topics() == []


# ---- by dice --------------------------------------------------------------------------------------


def test_appends_under_faults_by_dice_are_what_their_writers_were_told(s3: Spoilt, seed: int) -> None:
    log = s3.new_log()
    with s3.connect(log) as writer:
        for step in range(4):
            s3.proxy.forget()
            s3.proxy.roll([*NOT_APPLIED, *APPLIED], every=4, seed=1000 * seed + step)
            errors = [log.append(writer, GIVE_UP_MS) for _ in range(4)]
            s3.proxy.clear()
            s3.compare(log, next((each for each in errors if each is not None), None))
    with s3.connect(log) as anew:
        log.check_all(anew)
    assert any(each.landed is Landed.YES for each in log.history)
