"""OWNER/<number>: the mark that names the chain that owns a store since the cluster was restored the `number`-th time.

A restore puts its mark on each store, and only then reads the mirror there to its end. A mark is put only if it is
absent and is never deleted, and numbers have no gaps. So if a process of the old chain looks for the mark with the next
number and finds none, the store still belonged to its chain at that time.

Whichever object is put first under `meta/restores/<number>` decides. If it is the beginning of the restored chain, that
chain has begun. If it is another restore's mark, that chain never begins, and the other restore takes the next number.

A mark is JSON in a frame with a checksum (`framing.py`), so a flipped bit can't make it name another chain or address.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from sparklog.chain.damaged_chain import damage
from sparklog.chain.framing import frame, unframe
from sparklog.core.errors import ChainDamaged, InconsistentClusterId, KeyExists, KeyNotFound, OutcomeUnknown
from sparklog.storage.keys import OWNERS, owner_key, parse_owner_key
from sparklog.storage.object_store import ObjectStore


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an OWNER mark: `chain_id` is the chain that owns the store.

    `previous`: an earlier chain of the cluster. `cluster`: the address of the owning chain. `given_up`: the chains of
    earlier restores that never began.
    """

    chain_id: str
    previous: str
    cluster: str
    given_up: tuple[str, ...] = ()


_START = b"sparklog-owner "


def encoded(owner: Owner) -> bytes:
    """Return the bytes of the mark OWNER/<number>."""
    return frame("owner", msgspec.json.encode(owner))


def decoded(body: bytes | memoryview, key: str, url: str) -> Owner:
    """Decode the mark OWNER/<number> that was read from `key`. Raises ChainDamaged, UnsupportedVersion."""
    try:
        return msgspec.json.decode(unframe("owner", body, key, url), type=Owner)
    except msgspec.DecodeError as error:
        raise damage(key, f"its checksum is right, but it can't be read: {error}", url) from error


def is_owner_mark(body: bytes | memoryview) -> bool:
    """True if `body` is an OWNER mark.

    Under `meta/restores/<number>`, a mark was put by another restore: the chain of this one never begins. Anything else
    there is the beginning of that chain.
    """
    return bytes(body[: len(_START)]) == _START


def read_owner(store: ObjectStore, number: int, beside: Collection[str] = ()) -> Owner | None:
    """Return the mark of the `number`-th restore; None if the store has none.

    `beside`: keys of objects that must be on the same disk as the mark. Raises StoreUnavailable if they are not on the
    disk where it was looked for. Raises ChainDamaged, UnsupportedVersion, and the store's errors.
    """
    key = owner_key(number)
    try:
        return decoded(store.get_beside(key, beside) if beside else store.get(key), key, store.url)
    except KeyNotFound:
        return None


def put_owner(store: ObjectStore, number: int, owner: Owner) -> Owner:
    """Put `owner` as OWNER/<number> if that is absent. Return the owner that the mark then names.

    Raises OutcomeUnknown, and the store's errors.
    """
    try:
        store.put_if_absent(owner_key(number), encoded(owner))
    except (KeyExists, OutcomeUnknown) as error:
        existing = read_owner(store, number)
        if existing is None:
            raise OutcomeUnknown(f"{owner_key(number)} at {store.url} could not be put: {error.message}") from error
        return existing
    return owner


def owners_on(store: ObjectStore) -> tuple[dict[int, Owner], frozenset[int]]:
    """Return the OWNER marks on the store, by number, and the numbers of damaged marks. Raises the store's errors."""
    owners: dict[int, Owner] = {}
    damaged = set()
    for number in [parse_owner_key(stored.key) for stored in store.list_keys(OWNERS)]:
        if number is None:
            continue
        try:
            owner = read_owner(store, number)
        except ChainDamaged:
            damaged.add(number)
            continue
        if owner is not None:
            owners[number] = owner
    return owners, frozenset(damaged)


def check_owner(store: ObjectStore, ancestors: int, beside: Collection[str] = ()) -> None:
    """Raise InconsistentClusterId unless the chain, which was restored `ancestors` times, still owns the store.

    `beside`: keys of objects that must be on the same disk as the marks, as in `read_owner`. Raises what that raises.
    """
    owner = read_owner(store, ancestors + 1, beside)
    if owner is not None:
        raise superseded(owner, store.url)


def superseded(owner: Owner, url: str) -> InconsistentClusterId:
    """Return the error for a process of an old chain. `owner`, read from the store at `url`, names the new chain."""
    return InconsistentClusterId(
        f"cluster {owner.previous} was restored as cluster {owner.chain_id} at {owner.cluster}, says the store at "
        f"{url}: nothing is written or deleted for the old one any more; connect to {owner.cluster}, and if there is "
        "no cluster yet, finish that restore (sparklog cluster restore)"
    )
