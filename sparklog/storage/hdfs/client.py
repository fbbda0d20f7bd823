"""Calls to HDFS through hdfs-native (Rust, no JVM): each ends at its deadline, and each failure has a kind.

hdfs-native may wait forever, for example for a name node that accepts the connection and then hangs. So each call runs
in its own thread, and at the deadline the caller continues without it. The abandoned thread ends when the name node
answers or hdfs-native gives up. Until then its call may still take effect. That matters only for the rename that ends
an upload: `upload.py` makes sure that it does not take effect later. The next calls use a new client with new
connections.

There is one client per process and address, because a client owns threads, and threads do not survive a fork. A forked
process makes its own client and never drops its parent's: dropping it would wait for threads that don't exist here. A
fork also copies the parent's open connections to data nodes, which hdfs-native keeps for three seconds. The forked
process makes its client only after that time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sparklog.core.config.key import did_you_mean
from sparklog.core.describe.readable import duration
from sparklog.core.errors import InvalidInput
from sparklog.host.clock import monotonic_s, sleep_s
from sparklog.host.deadline import Deadline
from sparklog.host.exit import at_very_end
from sparklog.host.extras import needed
from sparklog.host.fork import after_fork_in_child
from sparklog.storage.server_settings import DEFAULT_TIMEOUT_MS, TIMEOUT, read_values

if TYPE_CHECKING:
    from hdfs_native import Client

T = TypeVar("T")

SETTINGS: Final = ("timeout_ms", "user")

_HADOOP_PREFIXES: Final = ("dfs.", "fs.", "hadoop.")
_SLOWEST_BYTES_PER_MS: Final = 1024  # the deadline of a call grows by 1 ms for this many bytes that it moves
_LANES: Final = 4  # reads of one call that run at the same time

# A client that can't reach a name node reports the reason after about five seconds with one name node, after about
# twenty (as long as a failover takes) with two. A read that stalls continues on another replica. These values take
# precedence over Hadoop's files, which are written for clients without deadlines; the settings override both.
_RETRY: Final = "dfs.client.failover"
_ONE_NAME_NODE: Final = {f"{_RETRY}.max.attempts": "6", f"{_RETRY}.sleep.base.millis": "50"}
_NAME_SERVICE: Final = {f"{_RETRY}.max.attempts": "24", f"{_RETRY}.sleep.base.millis": "200"}
_ALWAYS: Final = {f"{_RETRY}.sleep.max.millis": "2000", "dfs.client.socket-timeout": "10000"}

_LAST_WAIT_S: Final = 1.0  # at the end of the process
_KEPT_CONNECTIONS_S: Final = 3.5  # hdfs-native keeps connections to data nodes for 3 s
_RPC_ERROR: Final = re.compile(r'(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)', re.DOTALL)
_RUST_ERROR: Final = re.compile(r'(\w+)\("(.*)"\)', re.DOTALL)
_OS_ERROR: Final = re.compile(r"\(os error ([0-9]+)\)")
_NOT_REACHED: Final = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL}


class HdfsFailure(Enum):
    """The reason why a call failed. Only TIMEOUT and BROKEN leave open whether it took effect."""

    ABSENT = auto()  # no such file, or no such parent
    EXISTS = auto()
    NOT_A_FOLDER = auto()  # a part of the path is a file
    NOT_EMPTY = auto()
    DENIED = auto()
    NOT_READY = auto()  # safe mode, standby
    QUOTA = auto()
    UNREACHABLE = auto()  # nothing accepted the connection
    TIMEOUT = auto()
    BROKEN = auto()


_KIND_OF_CLASS: Final = {
    "AccessControlException": HdfsFailure.DENIED,
    "AuthorizationException": HdfsFailure.DENIED,
    "SecretManager$InvalidToken": HdfsFailure.DENIED,
    "ParentNotDirectoryException": HdfsFailure.NOT_A_FOLDER,
    "PathIsNotEmptyDirectoryException": HdfsFailure.NOT_EMPTY,
    "SafeModeException": HdfsFailure.NOT_READY,
    "RetriableException": HdfsFailure.NOT_READY,
    "StandbyException": HdfsFailure.NOT_READY,
    "NSQuotaExceededException": HdfsFailure.QUOTA,
    "DSQuotaExceededException": HdfsFailure.QUOTA,
    "QuotaByStorageTypeExceededException": HdfsFailure.QUOTA,
}


class CallFailed(Exception):
    """A call to HDFS failed; `reason` explains it in one line."""

    def __init__(self, kind: HdfsFailure, reason: str) -> None:
        super().__init__(f"{kind.name}: {reason}")
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True, slots=True)
class HdfsAddress:
    """An HDFS file system, the user of this process there, and the timeout of a call.

    `authority` is host:port, or a name service of Hadoop's configuration, or empty for the configuration's
    fs.defaultFS. `user`: None leaves it to hdfs-native. `hadoop` holds keys and values that take precedence over the
    configuration's files.
    """

    authority: str
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    user: str | None = None
    hadoop: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, authority: str, settings: Mapping[str, str]) -> HdfsAddress:
        """Build an address from a store's settings. Raises InvalidInput for an unknown setting or an illegal value."""
        hadoop = {name: value for name, value in settings.items() if name.startswith(_HADOOP_PREFIXES)}
        for name in settings.keys() - hadoop.keys() - {*SETTINGS}:
            own = ", ".join(f"{prefix}*" for prefix in _HADOOP_PREFIXES)
            raise InvalidInput(
                f"a store on HDFS has the settings {', '.join(SETTINGS)} and Hadoop's own ({own}), "
                f"not {name!r}{did_you_mean(name, SETTINGS)}"
            )
        timeout_ms: int = read_values(settings, TIMEOUT).get("timeout_ms", DEFAULT_TIMEOUT_MS)
        return cls(authority, timeout_ms, settings.get("user"), tuple(sorted(hadoop.items())))

    def deadline(self, moved_bytes: int = 0) -> Deadline:
        """Return the deadline of a call that begins now: `timeout_ms`, and 1 ms more for each KiB of `moved_bytes`."""
        return Deadline(self.timeout_ms + moved_bytes // _SLOWEST_BYTES_PER_MS)


class HdfsCalls:
    """Calls to one file system. Cheap, thread-safe, and safe across forks."""

    def __init__(self, address: HdfsAddress) -> None:
        self._address = address

    def call(self, function: Callable[[Client], T], deadline: Deadline) -> T:
        """Call `function` with a client and return its result. Raises CallFailed, at the latest at the deadline.

        Raises InvalidInput if no client can be made.
        """
        client = _client(self._address)
        return self._run([partial(function, client)], deadline)[0]

    def read(self, parts: Sequence[Callable[[], bytes]], deadline: Deadline) -> list[bytes]:
        """Run `parts`, several at the same time, and return the bytes that each reads, in the order of `parts`.

        Every read from data nodes must use this method: it notes the time, so that a process forked soon afterwards
        waits until the connections to data nodes are closed. Raises CallFailed.
        """
        process = _process
        lanes = [partial(_each, parts[lane::_LANES]) for lane in range(min(_LANES, len(parts)))]
        try:
            read = self._run(lanes, deadline)
        finally:
            process.last_read_s = monotonic_s()
        return [read[number % _LANES][number // _LANES] for number in range(len(parts))]

    def _run(self, functions: Sequence[Callable[[], T]], deadline: Deadline) -> list[T]:
        process = _process
        running: list[tuple[_Worker, _PendingCall[T]]] = []
        try:
            for function in functions:
                worker = process.worker()
                running.append((worker, worker.begin(function)))
            return [answer.wait(deadline) for _, answer in running]
        except CallFailed as failed:
            if failed.kind is HdfsFailure.TIMEOUT:
                with process.lock:
                    process.clients.pop(self._address, None)
            raise
        finally:
            for worker, answer in running:
                if answer.is_there():
                    process.idle.append(worker)
                else:
                    worker.end()


class _PendingCall(Generic[T]):
    """A call that runs in another thread, and its result once there is one."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._there = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # a Rust panic is not an Exception
            self._error = error
        self._there.set()

    def is_there(self) -> bool:
        return self._there.is_set()

    def wait_until(self, end_s: float) -> None:
        """Wait until the function has ended, or until `end_s` on the monotonic clock."""
        self._there.wait(max(0, end_s - monotonic_s()))

    def wait(self, deadline: Deadline) -> T:
        """Wait until the function has ended; return its result. Raises CallFailed if it failed, or at the deadline."""
        if not self._there.wait(deadline.left_s()):
            raise CallFailed(HdfsFailure.TIMEOUT, f"no answer in {duration(deadline.timeout_ms)}")
        if self._error is not None:
            raise _call_failed(self._error) from self._error
        return self._result


class _Worker:
    """A thread that runs one function after another."""

    def __init__(self) -> None:
        self._given: SimpleQueue[_PendingCall[Any] | None] = SimpleQueue()
        threading.Thread(target=self._run, name="sparklog-hdfs", daemon=True).start()

    def begin(self, function: Callable[[], T]) -> _PendingCall[T]:
        answer = _PendingCall(function)
        _process.running.add(answer)
        if _process.is_over and threading.current_thread() is not threading.main_thread():
            _process.running.discard(answer)
            raise CallFailed(HdfsFailure.UNREACHABLE, "the program has ended")
        self._given.put(answer)
        return answer

    def end(self) -> None:
        """End the thread after its current function, whose result is no longer needed."""
        self._given.put(None)

    def _run(self) -> None:
        while (answer := self._given.get()) is not None:
            answer.run()
            _process.running.discard(answer)


class _Process:
    """The HDFS clients, threads and user of one process; a forked process starts with a new instance."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # guards `clients`
        self.clients: dict[HdfsAddress, Client] = {}
        self.idle: list[_Worker] = []
        self.running: set[_PendingCall[Any]] = set()  # also those whose caller no longer waits
        self.user: str | None = None  # this process's user of HDFS, if a setting named one
        self.last_read_s: float | None = None  # monotonic time of the last read from data nodes
        self.first_client_s = 0.0  # no client is made before this monotonic time
        self.is_over = False  # only the main thread may begin a call

    def worker(self) -> _Worker:
        try:
            return self.idle.pop()
        except IndexError:
            return _Worker()


_process = _Process()


def _end_calls() -> None:
    """Let no thread but the main one begin calls any more, and wait up to a second for those that run.

    A call that returns while the interpreter ends aborts the process: CPython before 3.14 ends the thread of such a
    call by unwinding its stack, which Rust takes for a crash. A call that still runs after this wait is unlikely to
    return at just that moment, but a daemon thread may call again and again.
    """
    _process.is_over = True
    end_s = monotonic_s() + _LAST_WAIT_S
    for answer in list(_process.running):
        answer.wait_until(end_s)


at_very_end(_end_calls)


def _reset_after_fork() -> None:
    global _process
    parent, _process = _process, _Process()
    _process.user = parent.user
    for client in parent.clients.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
    if parent.last_read_s is not None:
        _process.first_client_s = parent.last_read_s + _KEPT_CONNECTIONS_S


after_fork_in_child(_reset_after_fork)


def _client(address: HdfsAddress) -> Client:
    process = _process
    with process.lock:
        client = process.clients.get(address)
        if client is None:
            sleep_s(process.first_client_s - monotonic_s())
            _be(process, address.user)
            client = process.clients[address] = _new_client(address)
        return client


def _new_client(address: HdfsAddress) -> Client:
    with needed("hdfs", "a store on HDFS"):
        from hdfs_native import Client
    retries = _ONE_NAME_NODE if ":" in address.authority else _NAME_SERVICE
    try:
        return Client(f"hdfs://{address.authority}", config={**_ALWAYS, **retries, **dict(address.hadoop)})
    except Exception as error:
        raise InvalidInput(
            "a store on HDFS is hdfs://host:port/path, or hdfs://service/path with a name service of the Hadoop "
            f"configuration in HADOOP_CONF_DIR, found hdfs://{address.authority}: {_call_failed(error).reason}"
        ) from error


def _be(process: _Process, user: str | None) -> None:
    """Make `user`, unless it is None, the only HDFS user of this process. Raises InvalidInput if it has another.

    hdfs-native reads the user from the environment at each connection.
    """
    if user is None or user == process.user:
        return
    if process.user is not None:
        raise InvalidInput(f"one process is one user of HDFS: wanted {user!r}, found that it is {process.user!r}")
    process.user = os.environ["HADOOP_USER_NAME"] = user


def _each(functions: Sequence[Callable[[], T]]) -> list[T]:
    return [function() for function in functions]


def _call_failed(error: BaseException) -> CallFailed:
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return CallFailed(HdfsFailure.ABSENT, _first_line(text))
    if isinstance(error, FileExistsError):
        return CallFailed(HdfsFailure.EXISTS, _first_line(text))
    answered = _RPC_ERROR.search(text)
    if answered:
        java_class = answered[1].rpartition(".")[2]
        # Rust writes the text as a literal: a line break is a backslash and an n.
        reason = _first_line(answered[2].replace("\\n", "\n").replace('\\"', '"'))
        return CallFailed(_KIND_OF_CLASS.get(java_class, HdfsFailure.BROKEN), f"{reason} ({java_class})")
    number = _OS_ERROR.search(text)
    reached = number is None or int(number[1]) not in _NOT_REACHED
    if isinstance(error, OSError) and (not reached or "lookup address" in text):
        return CallFailed(HdfsFailure.UNREACHABLE, _first_line(text))
    rust_error = _RUST_ERROR.fullmatch(text)
    if rust_error:
        return CallFailed(
            HdfsFailure.BROKEN, f"{_first_line(rust_error[2].partition(': [Datanode')[0])} ({rust_error[1]})"
        )
    return CallFailed(HdfsFailure.BROKEN, f"{_first_line(text)} ({type(error).__name__})")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]
