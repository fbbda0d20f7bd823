"""Upload to all in-sync stores at once: an object is on every store that the commit names as its holder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from sparklog.storage.object_store import Bytes, Upload


class EveryUpload:
    """One stream into the same key on several stores; see `storage.object_store.Upload`."""

    def __init__(self, uploads: Sequence[Upload]) -> None:
        self._uploads = uploads

    def write(self, body: Bytes) -> None:
        """Append bytes to each upload."""
        for upload in self._uploads:
            upload.write(body)

    def publish(self) -> None:
        """Complete each upload and make it visible. Raises the first error."""
        for upload in self._uploads:
            upload.publish()

    def abort(self) -> None:
        """Drop what was written."""
        with ExitStack() as stack:
            for upload in self._uploads:
                stack.callback(upload.abort)

    def __enter__(self) -> EveryUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()
