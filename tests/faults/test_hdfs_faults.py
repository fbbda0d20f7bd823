"""Every name node call of an append, an open and read, and a cluster init fails in every way that a network can fail.

An operation runs once without a fault, to learn its calls; then once for each call, with that one spoilt. It must
succeed, or raise an error that says correctly whether it landed; then the log equals the model, and the next append and
read go on. The log is made, and compared with the model, without the proxy. Data nodes die and hang in
`tests/storage/test_hdfs_faults.py`. With --campaign every fault meets every operation, and no call is left out, even if
it does the same as another one; without it every fault meets one operation at least.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

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
from sparklog.core.errors import ClusterAlreadyExists, Landed, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.core.state_invariants import check
from sparklog.core.types import UploadId
from sparklog.log.read import object_reader
from sparklog.storage.hdfs import client, upload
from tests.faults.modelled_log import PARTITIONS, TOPIC, ModelledLog
from tests.servers.fault_proxy_rules import Fault, HalfSentBody, Hang, ReplyLost, ResetAfterBody, TruncatedResponse
from tests.servers.hadoop import Hadoop
from tests.servers.hdfs_proxy import Call, HdfsProxy

T = TypeVar("T")

pytestmark = pytest.mark.slow

HASTY_MS = 400  # how long a hang lasts
PATIENT_MS = 30_000  # elsewhere: a busy machine is not a fault
GIVE_UP_MS = 500  # of an append whose calls are all spoilt

RESET, HALF, LOST, CUT = (ResetAfterBody(), HalfSentBody(), ReplyLost(reset=True), TruncatedResponse())
HANGS: list[Fault] = [Hang(), Hang(applied=True)]
FAULTS_THAT_STAY: list[Fault] = [ReplyLost(), Hang(applied=True)]
PLAIN_RUNS = 3  # some runs have more calls: a close asks until the name node knows of the last block
READS = {"getBlockLocations", "getFileInfo", "getListing", "getServerDefaults"}  # hdfs-native tries these once more


def in_campaign(*values: object) -> ParameterSet:
    return pytest.param(*values, marks=pytest.mark.campaign)


@dataclass(frozen=True)
class Spoilt:
    """An HDFS behind the proxy. `campaign`: leave no call out."""

    proxy: HdfsProxy
    hadoop: Hadoop
    campaign: bool

    def storage(self, timeout_ms: int = PATIENT_MS) -> dict[str, str]:
        """Settings for a client whose calls take at most this long."""
        return {"metadata.timeout_ms": str(timeout_ms)}

    def new_url(self) -> str:
        return f"{self.proxy.url}/{uuid.uuid4().hex}"

    def new_log(self) -> ModelledLog:
        return ModelledLog.create(f"{self.hadoop.url}/{uuid.uuid4().hex}")

    def connect(self, log: ModelledLog, timeout_ms: int = PATIENT_MS) -> Cluster:
        return connect(f"{self.proxy.url}{urlsplit(log.url).path}", storage=self.storage(timeout_ms))

    def connect_to_meet(self, fault: Fault, log: ModelledLog) -> Cluster:
        """Connect with a client that soon sees the end of a hang."""
        return patiently(lambda: self.connect(log, HASTY_MS if isinstance(fault, Hang) else PATIENT_MS))

    def calls_of(self, operation: Callable[[], object]) -> Sequence[Call]:
        """The calls of `operation` to the name node when nothing goes wrong: the fewest of several runs."""

        def run() -> Sequence[Call]:
            forget_clients(self.proxy)
            self.proxy.forget()
            operation()
            return self.proxy.calls

        return min((run() for _ in range(PLAIN_RUNS)), key=len)

    @contextmanager
    def spoiling(self, fault: Fault, at: int, method: str, times: int | None = 1) -> Iterator[None]:
        """Spoil the first `method` after `at` calls of a new client, `times` in all (None: all that follow)."""
        forget_clients(self.proxy)
        self.proxy.forget()
        self.proxy.spoil(fault, at, times, method)
        try:
            yield
        finally:
            self.proxy.clear()

    def places(self, fault: Fault, calls: Sequence[Call]) -> Sequence[int]:
        """Which calls to spoil."""
        if self.campaign:
            return range(len(calls))
        chosen = different(calls)
        return chosen if fault != Hang(applied=True) else [at for at in chosen if calls[at].method not in READS]

    def spoilt(self, fault: Fault) -> Call | None:
        """The first call that was spoilt; None if the machine was too slow for a hasty client to get that far."""
        found = next((each for each in self.proxy.calls if each.fault is not None), None)
        assert found is not None or isinstance(fault, Hang), self.told()
        return found

    def told(self) -> str:
        return "\n".join(f"{each}{f'   <- {each.fault}' if each.fault else ''}" for each in self.proxy.calls)

    def compare(self, log: ModelledLog, error: SparklogError | None) -> None:
        """Compare the log with the model, after an operation that ended with `error`."""
        try:
            log.check()
        except (AssertionError, SparklogError) as wrong:
            raise AssertionError(f"{wrong}\nafter {error!r} and these calls:\n{self.told()}") from wrong


def different(calls: Sequence[Call]) -> Sequence[int]:
    """The numbers of the calls, without those that do what an earlier one did to an object of the same kind.

    Of calls to temporaries, those to the first and to the last one (a chain entry's) stay.
    """
    creates = [each.path for each in calls if each.method == "create"]
    temporary = ""
    first: dict[tuple[str, str, str, str | None], int] = {}
    for at, each in enumerate(calls):
        temporary = each.path if each.method == "create" else temporary
        stage = "between" if temporary in creates[1:-1] else "end" if temporary in creates[-1:] else "begin"
        kind = re.sub(r"[0-9a-f]{16,}", "", each.path.removesuffix(".index").removesuffix(".arrow"))
        first.setdefault((each.method, stage, kind, each.answer), at)
    return [at for (_, stage, *_), at in first.items() if stage != "between"]


def patiently(operation: Callable[[], T]) -> T:
    """Run it again with a patient client, if a busy machine was too slow for the hasty one."""
    while True:
        with suppress(StoreUnavailable):
            return operation()


def forget_clients(proxy: HdfsProxy) -> None:
    """Let the next call through `proxy` be the first of a client, as in a new process."""
    clients = client._process.clients
    for address in [each for each in clients if proxy.url == f"hdfs://{each.authority}"]:
        clients.pop(address, None)


@pytest.fixture(scope="module")
def running(hadoop: Hadoop, request: pytest.FixtureRequest) -> Iterator[Spoilt]:
    with pytest.MonkeyPatch.context() as patch:
        # A probe is slow, and does not matter here.
        patch.setattr(bootstrap, "check_store", lambda store, probe_id: None)
        with HdfsProxy(hadoop.url) as proxy:
            yield Spoilt(proxy, hadoop, request.config.getoption("--campaign"))
    forget_clients(proxy)


@pytest.fixture
def hdfs(running: Spoilt, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spoilt]:
    numbers = itertools.count()

    def new_upload_id() -> UploadId:
        """Ids whose uploads go into new folders, so that every append makes one and has the same calls."""
        return UploadId(f"{next(numbers):02x}{uuid.uuid4().hex[2:]}")

    monkeypatch.setattr("sparklog.client.plans.task_upload.new_upload_id", new_upload_id)
    yield running
    running.proxy.clear()


# ---- an append ------------------------------------------------------------------------------------


# M: S-03 (loses)
@pytest.mark.parametrize(
    "fault", [RESET, LOST, Hang(applied=True), *(in_campaign(fault) for fault in (HALF, CUT, Hang()))], ids=str
)
def test_append_with_any_one_call_spoilt_leaves_the_log_as_its_writer_was_told(hdfs: Spoilt, fault: Fault) -> None:
    log = hdfs.new_log()
    with hdfs.connect_to_meet(fault, log) as writer, hdfs.connect(log) as other:
        calls = hdfs.calls_of(lambda: log.append(other, PATIENT_MS))
        assert Counter(each.method for each in calls) == Counter(
            getServerDefaults=1, create=3, addBlock=3, complete=3, rename2=4, mkdirs=1, getBlockLocations=7
        )
        for at in hdfs.places(fault, calls):
            patiently(writer.connection.follower.catch_up)
            with hdfs.spoiling(fault, at, calls[at].method):
                began_s = time.monotonic()
                error = log.append(writer, PATIENT_MS)
                took_s = time.monotonic() - began_s
            spoilt = hdfs.spoilt(fault)
            hdfs.compare(log, error)
            if error is not None and spoilt is not None:
                temporaries = [each for each in hdfs.proxy.calls[: spoilt.number] if each.method == "create"]
                assert len(temporaries) < 3, f"a commit tries again: {error!r}\n{hdfs.told()}"
                assert isinstance(error, StoreUnavailable), f"{error!r}\n{hdfs.told()}"
                assert error.landed is Landed.NO
                if fault in HANGS:
                    assert re.search("no answer in [0-9]+ ms", error.message), error.message
                    assert took_s < PATIENT_MS / 1000
                else:
                    assert spoilt.method not in READS, f"{error!r}\n{hdfs.told()}"
            assert log.append(other, PATIENT_MS) is None
        log.check()
    with hdfs.connect(log) as anew:
        log.check_all(anew)
        check(anew.connection.follower.state)


@pytest.mark.parametrize("fault", [ReplyLost(), in_campaign(Hang(applied=True))], ids=str)
def test_append_ends_at_its_deadline_when_nothing_gets_through_any_more(
    hdfs: Spoilt, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "_SETTLE_MS", HASTY_MS)
    log = hdfs.new_log()
    with hdfs.connect_to_meet(Hang(), log) as writer, hdfs.connect(log) as other:
        calls = hdfs.calls_of(lambda: log.append(other, PATIENT_MS))
        for at in hdfs.places(fault, calls):
            if not hdfs.campaign and calls[at].method not in ("create", "rename2"):
                continue
            patiently(writer.connection.follower.catch_up)
            with hdfs.spoiling(fault, at, calls[at].method, times=None):
                error = log.append(writer, GIVE_UP_MS)
            assert error is not None, hdfs.told()
            sent = any(each.method == "rename2" and "/meta/log/" in each.path for each in hdfs.proxy.calls)
            assert error.landed is (Landed.UNKNOWN if sent else Landed.NO), f"{error!r}\n{hdfs.told()}"
            hdfs.compare(log, error)
            assert log.append(other, PATIENT_MS) is None
        log.check()
    with hdfs.connect(log) as anew:
        log.check_all(anew)


# M: I-03 (loses)
@pytest.mark.parametrize("fault", FAULTS_THAT_STAY, ids=str)
def test_append_in_doubt_that_is_sent_again_is_there_once(
    hdfs: Spoilt, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "_SETTLE_MS", HASTY_MS)
    log = hdfs.new_log()
    with hdfs.connect(log) as patient, hdfs.connect(log, 5 * HASTY_MS) as writer:
        state = patient.connection.newest_state()
        addresses = patient.connection.addresses(state)
        plan = plan_write(state, addresses, new_command_id(), topic=TOPIC, compression=None, now_ms=1)
        rows = pa.record_batch({"value": [b"once"], "partition": pa.array([0], pa.int32())})
        command = append_command(plan, [upload_task_rows(plan, [rows])])
        assert command is not None
        with hdfs.spoiling(fault, 0, "rename2", times=None), pytest.raises(OutcomeUnknown) as caught:
            # Long enough to come to the spoilt call on a busy machine.
            writer.connection.committer.submit(Submission(plan.command_id, plan.n0, command), 8 * GIVE_UP_MS)
        assert caught.value.landed is Landed.UNKNOWN
    again = Submission(plan.command_id, plan.n0, command, in_doubt=True)
    with hdfs.connect(log) as anew:
        first = anew.connection.committer.submit(again, PATIENT_MS)
        assert anew.connection.committer.submit(again, PATIENT_MS) == first
        assert anew.read(TOPIC, partition=0, columns=["value"])["value"].to_pylist() == [b"once"]


# ---- opening, reading, looking up -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        *((CUT, 1), (Hang(), None), in_campaign(ReplyLost(), None)),
        *(in_campaign(fault, 1) for fault in (RESET, HALF, LOST, Hang())),
    ],
    ids=str,
)
def test_open_and_read_with_calls_spoilt_give_the_right_rows_or_an_error(
    hdfs: Spoilt, fault: Fault, times: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = hdfs.new_log()
    for _ in range(2):
        assert log.append(log.witness, PATIENT_MS) is None
    log.witness.connection.committer.snapshots.write()
    assert log.append(log.witness, PATIENT_MS) is None
    log.check()
    hasty = isinstance(fault, Hang) or times is None

    def open_and_read() -> None:
        """Read as a new process does: all rows, and the first offset at or after a time."""
        monkeypatch.setattr(object_reader, "_cache", object_reader._IndexCache(object_reader.CACHED_INDEXES))
        with hdfs.connect(log, HASTY_MS if hasty else PATIENT_MS) as reader:
            for partition in range(PARTITIONS):
                rows = reader.read(TOPIC, partition=partition, columns=["value"])
                assert rows["value"].to_pylist() == log.expected(partition), hdfs.told()
            assert reader.offset_for_time(TOPIC, 0, 1) == 0, hdfs.told()

    calls = patiently(lambda: hdfs.calls_of(open_and_read))
    # A client also asks for the defaults, unless it has connections to data nodes left from an earlier read.
    assert {each.method for each in calls} - {"getServerDefaults"} == {"getListing", "getBlockLocations"}
    for at in hdfs.places(fault, calls):
        with hdfs.spoiling(fault, at, calls[at].method, times):
            began_s = time.monotonic()
            error = error_of(open_and_read)
            took_s = time.monotonic() - began_s
        spoilt = any(each.fault for each in hdfs.proxy.calls)
        # A call of this method may come earlier than in the first run, or not at all (getServerDefaults).
        assert spoilt or hasty or all(each.method != calls[at].method for each in hdfs.proxy.calls[at:]), hdfs.told()
        if error is not None:
            assert hasty, f"{error!r}\n{hdfs.told()}"
            assert isinstance(error, StoreUnavailable), f"{error!r}\n{hdfs.told()}"
            assert error.landed is Landed.NO
        assert error is not None or times == 1 or not spoilt
        assert took_s < PATIENT_MS / 1000
    patiently(open_and_read)


def error_of(operation: Callable[..., object], *given: object, **named: object) -> SparklogError | None:
    try:
        operation(*given, **named)
    except SparklogError as error:
        return error
    return None


# ---- making a cluster -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [HALF, *(in_campaign(fault) for fault in (RESET, LOST, CUT, Hang(applied=True)))], ids=str
)
def test_cluster_init_with_any_one_call_spoilt_makes_the_cluster_or_says_why_not(hdfs: Spoilt, fault: Fault) -> None:
    storage = hdfs.storage(HASTY_MS if isinstance(fault, Hang) else PATIENT_MS)
    calls = hdfs.calls_of(lambda: init_cluster(hdfs.new_url(), storage=hdfs.storage()))
    for at in hdfs.places(fault, calls):
        url = hdfs.new_url()
        with hdfs.spoiling(fault, at, calls[at].method):
            error = error_of(init_cluster, url, storage=storage)
        hdfs.spoilt(fault)
        if error is not None:
            assert isinstance(error, (StoreUnavailable, OutcomeUnknown)), f"{error!r}\n{hdfs.told()}"
            with suppress(ClusterAlreadyExists):
                init_cluster(url, storage=hdfs.storage())
        with connect(url, storage=hdfs.storage()) as cluster:
            assert cluster.topics() == []
