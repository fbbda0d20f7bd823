"""Guards of what a process may say that a store holds: what lies below a disk that is back by now does not count."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_BELOW: Final = ("tests/maintenance/test_remounted_stores.py::test_what_lies_below_a_disk_that_is_back_does_not_count",)

GUARDS: Final = (
    Guard(
        "upload-below-mount",
        "An object that was uploaded below a disk that is back by the last look is not on that disk.",
        "sparklog/log/write/replicated_upload.py",
        "check_incarnation(store, self.lane.incarnation, (self._key,))",
        "check_incarnation(store, self.lane.incarnation)",
        _BELOW,
        "names-append or names-roll",
    ),
    Guard(
        "copy-below-mount",
        "An object that was copied below a disk that is back by the last look is not reported.",
        "sparklog/log/objects/object_copy.py",
        "    objects = () if fetched.source is None else (data_key(wanted.object, wanted.topic),)",
        "    objects = ()",
        _BELOW,
        "names-agent or names-replication",
    ),
    Guard(
        "holder-below-mount",
        "What was copied for a commit below a disk that is back by the last look is not on that disk.",
        "sparklog/client/commits/holder_copies.py",
        "check_incarnation(target, self.lane.incarnation, copied)",
        "check_incarnation(target, self.lane.incarnation)",
        _BELOW,
        "names-submitted_again",
    ),
    Guard(
        "index-below-mount",
        "An index that was put below a disk that is back by now does not mend the object on that disk.",
        "sparklog/log/check/sighting.py",
        "    check_incarnation(target, incarnation, (key,))\n",
        "",
        _BELOW,
        "names-mended_index",
    ),
    Guard(
        "wiped-beside",
        "A store that was wiped with what was just written to it is in another life, and not only away.",
        "sparklog/log/incarnation.py",
        "            existing = read_incarnation(target)\n            if existing is not None and ",
        "            raise\n            if existing is not None and ",
        ("tests/log/test_incarnation.py::test_a_store_that_was_wiped_with_what_was_written_is_in_another_life",),
    ),
    Guard(
        "another-disk",
        "So is a store on another disk, which lacks what was just written.",
        "sparklog/log/incarnation.py",
        "if existing is not None and existing.incarnation == registered:",
        "if existing is not None:",
        ("tests/log/test_incarnation.py::test_another_disk_that_lacks_what_was_written_is_in_another_life",),
    ),
    Guard(
        "copies-below-newer-snapshot",
        "A copy of an entry that a newer snapshot covers needs no entry before it.",
        "sparklog/chain/mirror/mirror.py",
        "        if lacking.start > begin:",
        "        if lacking.start != begin:",
        ("tests/client/test_remounted_copies.py::test_a_copy_that_a_snapshot_covers_needs_no_entry_before_it",),
    ),
)
