"""Damage to what a cluster has stored, for the tests of verify."""

from __future__ import annotations

import random
from dataclasses import dataclass

from sparklog.core.maintenance.differences import DifferenceKind
from sparklog.storage.keys import index_key
from sparklog.storage.object_store import ObjectStore

OBJECT_DAMAGE = ("flip", "cut", "lose", "lengthen", "swap", "flip index", "cut index", "lose index", "swap index")
KINDS = {  # what a report must say, among others; after a swap either length or checksum differs
    "flip": DifferenceKind.OBJECT_CHECKSUM,
    "cut": DifferenceKind.OBJECT_SIZE,
    "lose": DifferenceKind.OBJECT_MISSING,
    "lengthen": DifferenceKind.OBJECT_SIZE,
    "flip index": DifferenceKind.INDEX_CHECKSUM,
    "cut index": DifferenceKind.INDEX_SIZE,
    "lose index": DifferenceKind.INDEX_MISSING,
}


@dataclass
class Damager:
    """Damages objects of one store at random places."""

    store: ObjectStore
    dice: random.Random

    def damage(self, how: str, key: str, other: str) -> None:
        """Damage the object under `key` or its index; a swap puts the bytes of `other` there."""
        if how.endswith("index"):
            how, key, other = how.removesuffix(" index"), index_key(key), index_key(other)
        body = bytes(self.store.get(key))
        match how:
            case "flip":
                at = self.dice.randrange(len(body))
                self.put(key, body[:at] + bytes([body[at] ^ (1 << self.dice.randrange(8))]) + body[at + 1 :])
            case "cut":
                self.put(key, body[: self.dice.randrange(len(body))])
            case "lengthen":
                self.put(key, body + b"\0")
            case "lose":
                self.store.delete(key)
            case "swap":
                self.put(key, bytes(self.store.get(other)))
            case _:
                raise ValueError(how)

    def put(self, key: str, body: bytes) -> None:
        """Replace an object."""
        self.store.delete(key)
        self.store.put_if_absent(key, body)
