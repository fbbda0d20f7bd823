"""Opens connections and sends nothing on them: `python -m tests.faults.idle_sockets PORT FROM COUNT`.

FROM is an address of this machine, as 127.0.0.2: each has ports of its own. It prints how many it opened, and why no
more; it ends when its input does.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sparklog.host.open_files import most_open_files

OF_ITS_OWN = 64  # files that the process needs besides


@contextmanager
def idle_sockets(port: int, count: int) -> Iterator[list[tuple[int, str]]]:
    """Open so many idle connections, from several processes and addresses.

    Yields, for each process, how many it opened and why no more.
    """
    most = (most_open_files() or count + OF_ITS_OWN) - OF_ITS_OWN
    per_process = min(most, 20_000)  # an address has about 28,000 ports
    opened: list[tuple[int, str]] = []
    with ExitStack() as stack:
        processes = []
        for number, begin in enumerate(range(0, count, per_process)):
            command = [sys.executable, "-m", "tests.faults.idle_sockets", str(port), f"127.0.0.{number + 2}"]
            command.append(str(min(per_process, count - begin)))
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        for process in processes:
            assert process.stdout is not None
            number_opened, _, reason = process.stdout.readline().strip().partition(" ")
            opened.append((int(number_opened), reason))
        yield opened


def _open(port: int, address: str, count: int) -> None:
    most_open_files()
    opened: list[socket.socket] = []
    reason = "all that were wanted"
    try:
        while len(opened) < count:
            opened.append(socket.create_connection(("127.0.0.1", port), 60, (address, 0)))
    except OSError as error:
        reason = str(error)
    print(len(opened), reason, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _open(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
