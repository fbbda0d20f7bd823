"""A store that fails, or counts, on its way to another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sparklog.storage.object_store import Bytes, ObjectStore, Upload


@dataclass
class WatchedStore:
    """Passes calls on. `before_write` and `before_publish` are called with the key before and may raise; reads are
    counted by key.
    """

    inner: ObjectStore
    before_write: Callable[[str], None] = lambda key: None
    before_publish: Callable[[str], None] = lambda key: None
    after_publish: Callable[[str], None] = lambda key: None
    published: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    read_whole: list[str] = field(default_factory=list)
    read_ranges: list[tuple[str, int, int]] = field(default_factory=list)
    read_ahead: int = 0

    @property
    def url(self) -> str:
        return self.inner.url

    def put_if_absent(self, key: str, body: Bytes) -> None:
        self.before_publish(key)
        self.inner.put_if_absent(key, body)
        self.published.append(key)
        self.after_publish(key)

    def upload(self, key: str) -> WatchedUpload:
        return WatchedUpload(self, key, self.inner.upload(key))

    def get(self, key: str) -> memoryview:
        self.read_whole.append(key)
        return self.inner.get(key)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        self.read_ranges.extend((key, start, end) for start, end in ranges)
        return self.inner.get_ranges(key, ranges)


@dataclass
class WatchedUpload:
    store: WatchedStore
    key: str
    inner: Upload
    done: bool = False

    def write(self, body: Bytes) -> None:
        self.store.before_write(self.key)
        self.inner.write(body)

    def publish(self) -> None:
        self.store.before_publish(self.key)
        self.inner.publish()
        self.done = True
        self.store.published.append(self.key)
        self.store.after_publish(self.key)

    def abort(self) -> None:
        if not self.done:
            self.store.aborted.append(self.key)
        self.inner.abort()

    def __enter__(self) -> WatchedUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()
