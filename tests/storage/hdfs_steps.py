"""A client of HDFS that can be made to fail, or to kill its process, at a call of one name."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from sparklog.storage.hdfs import client as hdfs_client
from sparklog.storage.hdfs.store import HdfsStore

Step = Callable[[Callable[[], Any]], Any]  # gets the call, and makes it or not

STEPS = ("create", "write", "close", "read", "rename")  # of a put, in this order
BODY = bytes(range(256)) * 5000


class SteppedClient:
    """Passes calls on to a client, those of `steps` through what stands there under their name."""

    def __init__(self, client: object, steps: dict[str, Step]) -> None:
        self._client = client
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name == "inner":
            return SteppedClient(method, self._steps)

        def call(*arguments: object, **named: object) -> Any:
            step = self._steps.get(name)
            result = step(lambda: method(*arguments, **named)) if step else method(*arguments, **named)
            return SteppedClient(result, self._steps) if name == "create" else result

        return call


def stepped_store(url: str, steps: dict[str, Step], timeout_ms: int = 20_000) -> HdfsStore:
    """A store whose client is not shared with others, and whose calls take `steps` while they stand in it."""
    # A key of Hadoop's configuration that means nothing gives an address, and so a client, of its own.
    store = HdfsStore(url, {"dfs.client.of": os.urandom(8).hex(), "timeout_ms": str(timeout_ms)})
    client = hdfs_client._new_client(store._address)
    hdfs_client._process.clients[store._address] = SteppedClient(client, steps)  # type: ignore[assignment]
    return store


def _killed(before: bool) -> Step:
    def step(call: Callable[[], Any]) -> Any:
        if not before:
            call()
        os.kill(os.getpid(), signal.SIGKILL)

    return step


if __name__ == "__main__":  # put BODY under `key`, killed before or after a step
    _url, _key, _name, _when = sys.argv[1:]
    stepped_store(_url, {_name: _killed(_when == "before")}).put_if_absent(_key, BODY)
