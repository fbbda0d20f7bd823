"""The input of a micro-batch, as Spark logs it in the checkpoint of a query before any of its tasks runs.

    <checkpoint>/metadata        {"id": "<query id>"}
    <checkpoint>/offsets/<batch number>
        v1 or v2
        {"batchWatermarkMs": …}                      Spark's own line
        {"version": 1, "cluster": …}                 a line for each source; v2 has "<source>:" before the JSON
        -                                            a source without offsets yet

Spark never changes a file of `offsets`: a process that repeats the micro-batch, even after a crash, reads its offsets
from the file. If the checkpoint was set back, or copied, Spark may plan a micro-batch with the same number again. The
new file has other content, because it contains the time of the plan. So the content of a file identifies the input of
the micro-batch. Source: Spark's `OffsetSeqLog` (4.0 to 4.2).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from sparklog.core.config.key import shown
from sparklog.core.errors import InvalidInput, KeyNotFound, StoreUnavailable, UnsupportedVersion
from sparklog.core.reading.stream_positions import StreamPositions, from_json
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store

_VERSIONS: Final = ("v1", "v2")
_UNREADABLE: Final[set[str]] = set()  # checkpoints that this process can't read and does not try again

log = logging.getLogger("sparklog")


def open_checkpoint(url: str) -> ObjectStore:
    """Open the checkpoint of a query; nothing is read yet. Raises InvalidInput if its address can't be opened."""
    try:
        return open_store(url)
    except InvalidInput as error:
        raise InvalidInput(
            f"groupId: a stream write reads its input offsets from its checkpoint: {error.message}; for other "
            "checkpoints, sparklog.spark.exactly_once in foreachBatch does the same"
        ) from error


def logged_offsets(checkpoint: ObjectStore, query_id: str, batch_id: int) -> bytes:
    """Return the content of a micro-batch's file in the offset log.

    Raises InvalidInput if the checkpoint belongs to another query or lacks the file, and the store's errors.
    """
    written = _read(checkpoint, "metadata", query_id, batch_id).decode(errors="replace")
    if _query_in(written) != query_id:
        raise InvalidInput(f"wanted the checkpoint of query {query_id}, found {shown(written)} in {checkpoint.url}")
    return _read(checkpoint, f"offsets/{batch_id}", query_id, batch_id)


def logged_if_readable(url: str, query_id: str, batch_id: int) -> bytes | None:
    """Return the content of a micro-batch's file in the offset log; if it can't be read, log a warning and return None.

    After such a failure, later calls for this checkpoint in this process return None at once, unless the store was only
    unavailable.
    """
    if url in _UNREADABLE:
        return None
    try:
        return logged_offsets(open_checkpoint(url), query_id, batch_id)
    except Exception as error:  # a store or its library may raise anything: the micro-batch is written without it
        if not isinstance(error, StoreUnavailable):
            _UNREADABLE.add(url)
        log.warning(
            "the checkpoint %s can't be read here, so it goes unnoticed if it is set back by one micro-batch, or if a "
            "copy of it is in use: %s",
            url,
            error,
        )
        return None


def digest_of(logged: bytes) -> str:
    """Return the digest of a file of the offset log. It identifies the input of the file's micro-batch."""
    return hashlib.sha256(logged).hexdigest()


def ends_of(logged: bytes, query_id: str, chain_id: str) -> list[StreamPositions]:
    """Return the end of a micro-batch in each of its sources that is a stream of cluster `chain_id`.

    `logged`: the micro-batch's file in the offset log. Raises InvalidInput if there is no such source, and
    UnsupportedVersion or InvalidInput if `logged` has an unknown form.
    """
    ends = [positions for positions in positions_in(logged.decode(errors="replace")) if positions.chain_id == chain_id]
    if not ends:
        raise InvalidInput(
            f"groupId: query {query_id} reads no stream of cluster {chain_id}, so there are no offsets to commit"
        )
    return ends


def positions_in(logged: str) -> Iterator[StreamPositions]:
    """Yield the positions of each source that is a sparklog stream, from the text of a file of the offset log.

    Raises UnsupportedVersion, InvalidInput.
    """
    version, *rest = logged.splitlines() or [""]
    if version.strip() not in _VERSIONS:
        raise UnsupportedVersion(
            f"wanted an offset log of version {' or '.join(_VERSIONS)}, found {shown(version)}: a newer Spark wrote it "
            "or it is damaged"
        )
    for line in rest[1:]:
        try:
            stored = json.loads(line[line.index("{") :])
        except (ValueError, RecursionError):  # "-", or a source whose offsets are not JSON
            continue
        if "topic_ids" in stored:
            yield from_json(stored)


def _query_in(metadata: str) -> object:
    """Return the query's id from `metadata`, the text of a checkpoint's file of that name; None if it has no id."""
    with suppress(ValueError, RecursionError):
        stored = json.loads(metadata)
        return stored.get("id") if isinstance(stored, dict) else None
    return None


def _read(checkpoint: ObjectStore, key: str, query_id: str, batch_id: int) -> bytes:
    try:
        return bytes(checkpoint.get(key))
    except KeyNotFound as error:
        raise InvalidInput(
            f"wanted the offsets of micro-batch {batch_id} of query {query_id}, found no {key} in {checkpoint.url}: "
            "give checkpointLocation with its scheme, so that Spark and sparklog read the same place"
        ) from error
