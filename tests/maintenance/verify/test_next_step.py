"""The rule of recovery, without any store: tables of what was seen and the next step, and runs of a model to their end.

A line as "b:damaged a:whole" is what was seen of the copies, oldest first. `holders` are the stores that have the
object by the chain, `replicas` those that may be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.core.maintenance.objects_to_verify import ObjectToVerify
from sparklog.core.types import (
    EntryNumber,
    NamedObject,
    NewObject,
    ObjectKind,
    ObjectNumber,
    StoreId,
    TopicId,
    UploadId,
)
from sparklog.log.check.object_check import ObjectCheck, ObjectFinding, Problem, StoredPart
from sparklog.log.check.sighting import Sighting
from sparklog.maintenance.verify.next_step import (
    ATTEMPTS,
    Case,
    Close,
    Look,
    Refetch,
    Salvage,
    Standing,
    Step,
    next_step,
)

OBJECT: Final = ObjectToVerify(
    NamedObject(
        ObjectNumber(7),
        NewObject(
            kind=ObjectKind.APPEND,
            n0=EntryNumber(0),
            upload_id=UploadId("ab" * 16),
            topic_id=TopicId(1),
            size_bytes=1,
            crc32c=0,
            index_size_bytes=1,
            index_crc32c=0,
            holders=(),
        ),
    ),
    "t",
    (),
    (),
    (),
)
PROBLEMS: Final = {
    "whole": (),
    "damaged": ((StoredPart.OBJECT, Problem.CRC),),
    "missing": ((StoredPart.OBJECT, Problem.MISSING), (StoredPart.INDEX, Problem.MISSING)),
    "indexless": ((StoredPart.INDEX, Problem.MISSING),),
}


def sighting(text: str) -> Sighting:
    """A sighting from a text as "a:damaged" or "a:silent". A third part is for `step`."""
    store, what, *_ = text.split(":")
    if what == "silent":
        return Sighting(StoreId(store), None, "no answer")
    findings = tuple(ObjectFinding(part, kind, "good", "bad") for part, kind in PROBLEMS[what])
    return Sighting(StoreId(store), ObjectCheck(findings, 0, 0))


def ids(stores: str) -> frozenset[StoreId]:
    return frozenset(map(StoreId, stores))


def standing_of(holders: frozenset[StoreId], replicas: frozenset[StoreId], **more: Any) -> Standing:
    """The chain's word on an object with one slice: a replica has it or lacks it. `more` may say otherwise."""
    return Standing(**{"holders": holders, "replicas": replicas, "lacking": replicas - holders, **more})


def fetched(seen: Sequence[Sighting]) -> tuple[StoreId, ...]:
    """Each further look at a copy was after a fetch."""
    return tuple(of.store for at, of in enumerate(seen) if of.store in {before.store for before in seen[:at]})


def step(
    seen: str = "", *, found: str = "", holders: str = "abc", replicas: str = "abc", fenced: str = "",
    unheld: bool = False, due: str = "abc", closed: str = "", lacking: str = "", in_part: str = "", others: str = "",
) -> Step | None:  # fmt: skip
    """The next step. A third part, as in "c:missing:full", is why the store could not be filled before that look.

    `in_part`: holders that lack another slice of the object.
    """
    seen_, found_ = tuple(map(sighting, seen.split())), tuple(map(sighting, found.split()))
    unfilled = {StoreId(of[0]): of.split(":")[2] for of in seen.split() if of.count(":") == 2}
    case = Case(OBJECT, found_, ids(lacking), seen_, fetched(seen_), unfilled, ids(closed))
    more = {"fenced": ids(fenced), "others": ids(others), "unheld": unheld}
    if in_part:
        more["lacking"] = ids(replicas) - ids(holders) | ids(in_part)
    return next_step(standing_of(ids(holders), ids(replicas), **more), case, ids(due))


def shown(next_: Step | None) -> str:
    """A step as a line, without the name of the object."""
    match next_:
        case Look():
            return f"look {''.join(next_.stores)}"
        case Refetch():
            counted, unheld = " counted" * next_.counted, " unheld" * next_.unheld
            return f"fetch {next_.store} from {next_.source or 'any'}{counted}{unheld}"
        case Salvage():
            return f"salvage {''.join(of.store for of in next_.sightings)}"
        case Close():
            message = next_.message.rpartition(".arrow: ")[2]
            return f"{next_.outcome or 'close'} {next_.store}: {message}".rstrip(": ")
    return "nothing"


FOUND = {"found": "b:damaged"}
BAD = "object crc: wanted good, found bad"
GONE = "object missing: wanted good, found bad; index missing: wanted good, found bad"
NOW = "it can't be repaired now"
FETCHED = "it was damaged, and was fetched again"


# M: F-04
@pytest.mark.parametrize(
    ("seen", "more", "wanted"),
    [
        # damage on a copy that the chain counts on
        ("", FOUND, "look abc"),
        ("a:whole b:damaged c:whole", FOUND, "fetch b from a counted"),
        ("a:whole b:missing c:whole", FOUND, "fetch b from a counted"),
        ("a:damaged b:damaged c:whole", FOUND, "fetch a from c counted"),
        ("a:indexless b:damaged c:damaged", FOUND, "fetch b from a counted"),
        ("a:whole b:damaged c:whole", {**FOUND, "holders": "ac"}, "fetch b from a"),
        ("a:whole b:damaged c:whole b:whole", FOUND, f"close b: {FETCHED}"),
        ("a:whole b:damaged c:whole b:whole", {**FOUND, "closed": "b"}, "nothing"),
        ("a:whole b:damaged c:whole b:damaged", FOUND, "fetch b from a counted"),
        ("a:whole b:whole c:whole", FOUND, "close b"),
        ("a:whole b:indexless c:whole", FOUND, "failed b: index missing: wanted good, found bad"),
        # it can't be read
        ("a:whole b:silent c:whole", FOUND, f"failed b: store b: {BAD}; {NOW}: store b: no answer"),
        ("a:whole b:damaged c:whole b:silent", FOUND, f"failed b: store b: {BAD}; the repair broke off: no answer"),
        ("a:silent b:damaged c:damaged", FOUND, f"failed b: store b: {BAD}; {NOW}: store a: no answer"),
        ("b:damaged c:damaged", {**FOUND, "replicas": "bc", "fenced": "a"},
         f"failed b: store b: {BAD}; {NOW}: store a is fenced, and may have it whole"),
        ("a:whole c:whole", {**FOUND, "replicas": "ac", "fenced": "b"},
         f"failed b: store b: {BAD}; {NOW}: store b is fenced, and may have it whole"),
        ("a:whole c:whole", {**FOUND, "replicas": "ac", "holders": "ac"}, "nothing"),
        # no copy is whole
        ("a:damaged b:damaged c:missing", FOUND, "salvage abc"),
        ("a:damaged b:damaged c:missing", {**FOUND, "holders": "ab"}, "salvage ab"),
        ("a:damaged b:damaged c:damaged", {**FOUND, "holders": "ab"}, "salvage abc"),
        ("a:damaged b:damaged c:missing", {**FOUND, "holders": "ab", "closed": "ab"},
         "failed c: store c lacks it: no store has it whole"),
        ("a:damaged b:damaged c:missing", {**FOUND, "closed": "ab"}, "nothing"),
        ("a:missing b:damaged", {**FOUND, "holders": "ab"}, "look c"),
        # the chain says that a store lacks it
        ("", {"holders": "ab"}, "look c"),
        ("", {"holders": "ab", "due": "ab"}, "nothing"),
        ("c:missing", {"holders": "ab"}, "fetch c from any"),
        ("c:whole", {"holders": "ab"}, "fetch c from c"),
        ("c:silent", {"holders": "ab"}, "failed c: it could not be filled: no answer"),
        ("c:damaged", {"holders": "ab"}, "look ab"),
        ("c:damaged a:damaged b:whole", {"holders": "ab", "due": "c"}, "fetch c from b"),
        ("c:damaged a:damaged b:damaged", {"holders": "ab", "due": "c"},
         f"failed c: store c: {BAD}; it is kept: no store has it whole: put it back"),
        ("c:damaged a:silent b:damaged", {"holders": "ab", "due": "c"},
         f"failed c: store c: {BAD}; it is kept: store a: no answer"),
        ("c:missing c:whole", {}, "close c: it was missing, and was fetched"),
        ("c:whole", {"lacking": "c"}, "close c: it was missing, and was fetched"),  # with another object
        ("c:damaged a:whole b:whole", {"holders": "ab", "lacking": "c"}, "fetch c from a"),
        ("c:missing c:missing:full", {"holders": "ab"}, "failed c: store c lacks it: full"),
        ("c:missing c:silent", {"holders": "ab"}, "failed c: it could not be filled: no answer"),
        # no store has it by the chain
        ("a:missing b:missing c:whole", {"holders": "", "unheld": True}, "fetch a from c unheld"),
        ("c:whole", {"holders": "", "unheld": True, "due": "c"}, "look ab"),
        ("a:missing b:whole c:whole", {"holders": "", "unheld": True, "due": "c"}, "fetch c from c unheld"),
        ("a:missing b:missing c:missing", {"holders": "", "unheld": True}, "salvage abc"),
        ("a:missing b:missing c:damaged", {"holders": "", "unheld": True, "due": "a"}, "salvage ca"),
        ("a:missing b:missing", {"holders": "", "unheld": True, "replicas": "ab", "fenced": "c"},
         f"failed a: store a: {GONE}; {NOW}: store c is fenced, and may have it whole"),
        # it was found damaged on a store that was fenced at the first look, and is back
        ("a:whole c:whole", FOUND, "look b"),
        ("a:whole c:whole b:damaged", FOUND, "fetch b from a counted"),
        ("a:whole c:whole", {**FOUND, "closed": "b"}, "nothing"),
        # a store that has no replica any more, or was removed
        ("a:whole b:damaged c:damaged", {**FOUND, "replicas": "bc", "holders": "bc", "others": "a"},
         "fetch b from a counted"),
        ("a:damaged b:damaged c:damaged", {**FOUND, "replicas": "bc", "holders": "bc", "others": "a"}, "salvage abc"),
        ("a:whole b:damaged c:damaged", {**FOUND, "replicas": "bc", "holders": "bc"}, "salvage bc"),
        ("a:damaged b:damaged c:damaged", {**FOUND, "replicas": "ab", "holders": "ab"}, "salvage ab"),
        # a store that has one slice of it, and lacks another
        ("a:damaged b:whole c:whole", {"found": "a:damaged", "in_part": "bc"}, "fetch b from b"),
        ("a:damaged b:whole c:whole", {"found": "a:damaged"}, "fetch a from b counted"),
        ("c:whole", {"in_part": "c", "lacking": "c"}, "fetch c from c"),
        ("a:whole b:whole c:whole", {"in_part": "abc", "lacking": "abc", "unheld": True}, "fetch a from a unheld"),
        ("b:damaged a:whole c:whole", {**FOUND, "in_part": "b"}, "fetch b from a counted"),
        # some stores only
        ("a:missing", {"holders": "a", "in_part": "a", "due": ""}, "nothing"),
        ("a:missing a:missing", {"holders": "a", "in_part": "a", "due": ""}, "look bc"),
        ("a:damaged b:damaged c:whole", {**FOUND, "due": "b"}, "fetch b from c counted"),
        ("a:damaged b:damaged c:whole b:whole", {**FOUND, "due": "b", "closed": "b"}, "fetch a from b counted"),
    ],
)  # fmt: skip
def test_what_was_seen_leads_to_the_next_step(seen: str, more: dict[str, object], wanted: str) -> None:
    assert shown(step(seen, **more)) == wanted  # type: ignore[arg-type]


def test_a_copy_is_fetched_so_often_and_no_more() -> None:
    seen = f"a:whole b:damaged c:whole{' b:damaged' * (ATTEMPTS - 1)}"
    assert isinstance(step(seen, **FOUND), Refetch)
    end = step(f"{seen} b:damaged", **FOUND)
    assert shown(end) == (
        f"failed b: store b: {BAD}; it could not be fetched again: it was damaged again: run recovery again"
    )
    assert shown(step(f"{seen} b:damaged:full", **FOUND)).endswith("it could not be fetched again: full")


# ---- whatever was seen, and whatever happens ------------------------------------------------------------

COPIES: Final = ("whole", "damaged", "missing", "indexless", "silent")
WHOLE: Final = ("whole", "indexless")


Place = tuple[Standing, Case, frozenset[StoreId]]


@st.composite
def places(draw: st.DrawFn) -> Place:
    """Anything that the chain may say of three stores, and that may have been seen of their copies."""
    subset = st.frozensets(st.sampled_from(sorted(ids("abc"))))
    kinds = draw(st.sampled_from((COPIES, ("damaged", "missing"), ("damaged", "missing", "silent"))))
    looks = [draw(st.lists(st.sampled_from(kinds), min_size=draw(st.integers(0, 1)), max_size=2)) for _ in "abc"]
    seen = [sighting(f"{store}:{what}") for store, of in zip("abc", looks, strict=True) for what in of]
    fenced = draw(st.just(ids("")) | subset)
    in_part = draw(st.just(ids("")) | subset)
    holders, replicas = draw(subset), ids("abc") - fenced
    others = draw(st.just(ids("")) | subset)
    replicas -= others
    lacking = (in_part & replicas) | (replicas - holders)
    standing = Standing(holders - others, lacking, replicas, others - fenced, fenced)
    standing = msgspec.structs.replace(standing, unheld=draw(st.booleans()))
    found = tuple(sighting(f"{store}:damaged") for store in sorted(draw(subset)))
    return (
        standing,
        Case(OBJECT, found, draw(subset), tuple(seen), fetched(seen), closed=draw(st.just(ids("")) | subset)),
        draw(st.just(ids("abc")) | subset),
    )


# M: F-04
@settings(max_examples=500)
@given(places())
def test_nothing_is_salvaged_unless_every_store_was_read_and_none_has_it_whole(place: Place) -> None:
    standing, case, due = place
    if isinstance(next_step(standing, case, due), Salvage):
        newest = {of.store: of for of in case.sightings}
        assert standing.replicas <= newest.keys()
        assert not standing.fenced
        assert all(of.check is not None and not of.object_is_whole for of in newest.values())


# M: F-04
@settings(max_examples=500)
@given(places())
def test_a_copy_is_only_taken_away_if_another_store_has_it_whole(place: Place) -> None:
    standing, case, due = place
    next_ = next_step(standing, case, due)
    if isinstance(next_, Refetch):
        newest = {of.store: of for of in case.sightings}
        copy = newest[next_.store]
        assert copy.check is not None
        assert next_.store not in case.closed
        assert next_.store in standing.replicas
        assert next_.counted == (next_.store in standing.holders and not copy.object_is_whole)
        if next_.counted or StoredPart.OBJECT in copy.damaged_parts:
            assert next_.source not in (None, next_.store)
        assert next_.source is None or newest[next_.source].object_is_whole
        assert next_.source is None or next_.source in standing.replicas | standing.others


# M: F-04
@settings(max_examples=500)
@given(places())
def test_no_damage_that_was_found_on_a_holder_is_forgotten(place: Place) -> None:
    standing, case, due = place
    if next_step(standing, case, due) is None:
        newest = {of.store: of for of in case.sightings}
        for store in {of.store for of in case.found} & standing.holders & standing.replicas - case.closed:
            assert store in newest, store


class Model:
    """Three stores, and the chain's word on which of them have the object."""

    def __init__(self, copies: list[str], holders: frozenset[StoreId]) -> None:
        self.copies = dict(zip(sorted(ids("abc")), copies, strict=True))
        self.holders = holders
        self.salvaged = False

    def seen(self, store: StoreId) -> Sighting:
        return sighting(f"{store}:{self.copies[store]}")

    def fetch(self, fetch: Refetch, luck: str) -> None:
        store = fetch.store
        self.holders -= {store}
        if luck == "error":
            return
        source = fetch.source or min((s for s in self.holders if self.copies[s] in WHOLE), default=None)
        if source is not None and self.copies[source] in WHOLE:
            self.copies[store] = luck if luck in ("damaged", "missing") else "whole"
            if luck != "missing":
                self.holders |= {store}


# M: F-04
@given(
    st.lists(st.sampled_from(COPIES), min_size=3, max_size=3),
    st.frozensets(st.sampled_from(sorted(ids("abc")))),
    st.lists(st.sampled_from(("whole", "whole", "damaged", "missing", "error")), max_size=12),
)
def test_every_run_comes_to_an_end_and_repairs_what_another_store_has_whole(
    copies: list[str], holders: frozenset[StoreId], luck: list[str]
) -> None:
    model, everyone, trouble = Model(copies, holders), ids("abc"), list(luck)
    found = tuple(model.seen(store) for store in sorted(holders) if model.copies[store] in ("damaged", "missing"))
    case, closes = Case(OBJECT, found, everyone - holders), list[Close]()
    for _ in range(60):
        standing = standing_of(model.holders, everyone, unheld=not model.holders)
        next_ = next_step(standing, case, everyone)
        match next_:
            case None:
                break
            case Look():
                case = msgspec.structs.replace(case, sightings=(*case.sightings, *map(model.seen, next_.stores)))
            case Refetch():
                drawn = trouble.pop() if trouble else "whole"
                model.fetch(next_, drawn)
                again = model.seen(next_.store) if drawn != "error" else sighting(f"{next_.store}:silent")
                again_ = (*case.fetched, next_.store)
                case = msgspec.structs.replace(case, sightings=(*case.sightings, again), fetched=again_)
            case Salvage():
                model.salvaged = True
                break
            case Close():
                closes.append(next_)
                case = msgspec.structs.replace(case, closed=case.closed | {next_.store})
    else:
        raise AssertionError("it goes round in circles")
    assert len({close.store for close in closes}) == len(closes), "each copy has one outcome"
    assert model.salvaged or {of.store for of in found} <= {close.store for close in closes}, "and none is forgotten"
    for close in closes:
        if close.outcome is None:
            assert model.copies[close.store] == "whole"
            assert close.store in model.holders
    if not luck and {"whole", "indexless"} & set(copies) and (found or len(holders) < 3) and "silent" not in copies:
        assert not model.salvaged
        assert set(model.copies.values()) <= {"whole", "indexless"}
        assert all(close.outcome is None for close in closes)
        assert model.holders == everyone
    if model.salvaged:
        assert not {"whole", "indexless", "silent"} & set(model.copies.values())
