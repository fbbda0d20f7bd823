"""The ids of the uploads that the chain names, as arrays that are quick to compare with listings (F-09).

Retired objects count as named until their bytes have been deleted. `vacuum_rule.py` says which objects are orphans.
"""

from __future__ import annotations

import numpy as np

from sparklog.core.state import ClusterState
from sparklog.core.tables.column_blocks import Column
from sparklog.core.types import ObjectKind, TopicId

UploadKeys = Column  # uint64

FEW_OBJECTS = 65_536  # up to this many, splitting the listing of append objects into 16 is enough


class NamedUploads:
    """The keys of all uploads that a state names. The key of an upload is the first 64 bits of its id.

    Two ids with the same key count as one. At worst an orphan stays; nothing that is named is ever deleted.
    """

    def __init__(self, state: ClusterState) -> None:
        high, kind, topic = state.objects.columns("upload_high", "kind", "topic_id").values()
        appended = kind == ObjectKind.APPEND
        self.objects = len(high)
        self._appends: UploadKeys = np.sort(high[appended])
        by_topic = np.lexsort((high[~appended], topic[~appended]))
        self._segments: UploadKeys = high[~appended][by_topic]
        self._topics: Column = topic[~appended][by_topic]

    def of_appends(self, digits: str) -> UploadKeys:
        """Return the keys of append objects whose upload id begins with the hex `digits`, ascending."""
        shift = 64 - 4 * len(digits)
        first = int(digits, 16)
        edges = np.array([first, first + 1], dtype=np.uint64)
        low, high = np.searchsorted(self._appends >> np.uint64(shift), edges).tolist()
        return self._appends[low:high]

    def of_topic(self, topic_id: TopicId) -> UploadKeys:
        """Return the keys of the sealed segments of a topic, ascending, even if the topic was deleted."""
        low, high = np.searchsorted(self._topics, [topic_id, topic_id + 1]).tolist()
        return self._segments[low:high]

    def append_digits(self) -> list[str]:
        """Return the prefixes of upload ids by which to split the listing of append objects.

        They are all hex numbers of one digit or, if the state has many objects, of two digits.
        """
        width = 1 if self.objects <= FEW_OBJECTS else 2
        return [f"{prefix:0{width}x}" for prefix in range(16**width)]
