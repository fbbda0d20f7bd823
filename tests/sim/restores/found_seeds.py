"""Seeds that broke a promise once, by what was wrong then. They stay as tests.

If the simulation changes, a seed is another world: look for others that fail without the mend.
"""

from __future__ import annotations

from typing import Final

FOUND: Final[dict[str, tuple[int, ...]]] = {
    # Before copies and restores were designed again.
    "a new store alone has copies of its own registration, and of all that follows": (168, 917, 14),
    "a store that is registered during a restore is neither marked nor closed": (16, 771, 345),
    "copies behind a hole count, and a restore stops there in silence": (86, 342, 1154),
    "a store that is added again still takes copies of the old chain": (930, 1153),
    "damage on one store makes a restore impossible": (1221, 272, 954),
    "two runs of one restore begin two chains of one id": (1052, 329, 81),
    "a restore that is refused or dies locks out every other one": (70, 1158, 540),
    "a store that was removed meanwhile is a KeyError": (1046, 651, 999),
    # Since then.
    "a newer snapshot on a store that is found later is not read": (1125, 1204),
    "the mark of a restore is taken for the copy of an entry": (109,),
    "a few chunks of the new chain hide the copies of the lost one": (150, 3051, 29),
    "a run whose restore another run has ended marks stores with a wrong number": (281,),
    "a restore to a place that was lost again begins the same chain a second time": (308, 3172, 3140),
    "a damaged peer is a UnicodeDecodeError": (53, 3106),
    "a damaged peer is another address": (3237, 3252),
    "a restore that is given up leaves a gap in the numbers": (3280,),
    "a dry run makes copies": (3122,),
    "a restored cluster that lives is not named, as its copies are damaged": (1077,),
    "a store whose INCARNATION names an older chain than the given stores know is another cluster's": (20013,),
    "an announcement that a mark refuses is tried again, and another error of a fenced store hides that": (30314,),
    # A promise that was none: another run, with other stores left out, ends what the first one has decided.
    "the arguments of the run that puts the first entry are taken for those of the restore": (70040,),
    # Another one: more stores are wiped or set back than have copies.
    "copies of a life that no entry knows are taken for a way to restore": (80089,),
    # One more: all stores are set back that had the entry which lowers metadata.copies to 0, so no restore knows of it.
    "an old chain goes on without copies after an entry that no store has any more": (40035,),
    # One more: the operator of the lost chain has removed and wiped the one store that was told of another one. The
    # restore had left it out.
    "a store is taken for one that a restore could find, as the one that was told of it is wiped": (30204,),
    # And one: the operator left out a store that was newer than all copies found. The refusal was not about that.
    "a store that the copies do not know is not named as what it is": (1050,),
    # What an entry in a wiped place needs was told by the entry that the place had lost.
    "an entry in a wiped place needs copies although metadata.copies is 0 there": (5300,),
    # The restore left out the one store that had it. Another store got a copy when the restore had begun, and only as
    # it was wiped: it had lost the restore's mark.
    "a copy that a wiped store gets once the restored chain has begun is taken for one that it had": (246415362,),
}

# A seed for each guard of `tests/guards/` that breaks a promise when the guard is gone.
SEEN: Final = {
    "copies-lowered": 0,
    "copies-lowered-first": 27,
}
