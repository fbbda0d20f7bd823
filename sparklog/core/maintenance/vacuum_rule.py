"""Decides which data objects are orphans, so that vacuum may delete them. No I/O.

An object is an orphan if the n0 in its name is below FLOOR, and a state with that FLOOR does not name it. Then no entry
up to that state needs it: what is retired counts as named until its bytes are gone. And no later entry can name it: a
command is refused if it began below FLOOR, or names an upload that did (`_check_floor` in core/decide/command.py). So
neither a wrong clock nor a slow writer can lead to a wrong deletion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparklog.core.maintenance.named_uploads import UploadKeys
from sparklog.core.types import EntryNumber, UploadId


def are_orphans(uploads: Sequence[tuple[EntryNumber, UploadId]], floor: EntryNumber, named: UploadKeys) -> list[bool]:
    """Return for each upload, given with its n0, whether it is an orphan.

    `named`: the keys of all uploads in the same place that the state names (see `NamedUploads`). The state must have
    this FLOOR or a higher one; a dry run may ask about a FLOOR that is not raised yet.
    """
    keys = np.array([int(upload_id[:16], 16) for _, upload_id in uploads], dtype=np.uint64)
    are_named = np.isin(keys, named).tolist()
    return [n0 < floor and not is_named for (n0, _), is_named in zip(uploads, are_named, strict=True)]
