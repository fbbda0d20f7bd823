"""The coordinator of a cluster: its identity, how its epoch begins and ends, and which of its entries count.

Without a coordinator the cluster is embedded: each process commits by itself. Either way it is the chain that makes
writes safe.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from sparklog.core.commands import ClaimCoordination, ResignCoordination
from sparklog.core.config.key import shown
from sparklog.core.errors import InconsistentClusterId, InvalidInput, NotController, StaleControllerEpoch
from sparklog.core.records import CoordinationClaimed, CoordinationResigned
from sparklog.core.types import EntryNumber


class Author(msgspec.Struct, frozen=True):
    """The author of an entry. `kind` is client, coordinator, job or restore. `epoch` is 0 except for a coordinator."""

    kind: str
    name: str
    epoch: int = 0


class Coordinator(msgspec.Struct, frozen=True, array_like=True):
    """The newest coordinator. Epochs begin at 1; epoch 0 means that there has been none yet.

    `address` is where it serves, "" once it has resigned. `entry` is the newest entry that it wrote.
    """

    epoch: int = 0
    name: str = ""
    address: str = ""
    entry: EntryNumber = EntryNumber(-1)

    @property
    def in_force(self) -> bool:
        """True if there is a coordinator that has not resigned, so that commands go to `address`."""
        return self.address != ""

    def has_written(self, author: Author, entry: EntryNumber) -> Coordinator:
        """Return this coordinator: with `entry` as its newest entry if it is the `author`, else unchanged."""
        return msgspec.structs.replace(self, entry=entry) if author.epoch == self.epoch > 0 else self


NO_COORDINATOR = Coordinator()
_ADDRESS: Final = re.compile(r"https?://([^\s/@:?#]+|\[[0-9a-f:]+\])(:\d{1,5})?")


def is_coordinator_address(url: str) -> bool:
    """True if `url` has the form http://HOST:PORT or https://HOST:PORT, of which the port may be absent."""
    return url.isprintable() and _ADDRESS.fullmatch(url) is not None


def decide_claim(known: Coordinator, command: ClaimCoordination) -> CoordinationClaimed:
    """Return the record of the claim. Raises InvalidInput if the name or the address is not legal.

    The claim's epoch must be the next one, unless the coordinator in force claims its own epoch again. Otherwise
    raises StaleControllerEpoch.
    """
    if not command.name or not command.name.isprintable() or not is_coordinator_address(command.address):
        raise InvalidInput(
            "a coordinator needs a name and an address http://HOST:PORT or https://HOST:PORT, printable ones, found "
            f"{shown(command.name)} and {shown(command.address)}"
        )
    is_its_own = known.in_force and (command.epoch, command.name) == (known.epoch, known.name)
    if command.epoch != known.epoch + 1 and not is_its_own:
        raise StaleControllerEpoch(
            f"a claim needs epoch {known.epoch + 1}, the next one, found {command.epoch}{_holder(known)}"
        )
    return CoordinationClaimed(command.epoch, command.name, command.address)


def decide_resign(known: Coordinator, command: ResignCoordination) -> CoordinationResigned:
    """Return the record of the resignation. Raises StaleControllerEpoch unless the epoch is that of the coordinator in
    force.
    """
    if not known.in_force or command.epoch != known.epoch:
        actual = f"found epoch {command.epoch}{_holder(known)}"
        raise StaleControllerEpoch(f"only the coordinator in force can resign, {actual}")
    return CoordinationResigned(command.epoch)


def check_chain(wanted: str, chain_id: str) -> None:
    """Raise InconsistentClusterId unless a request's chain, `wanted`, is `chain_id`, which this coordinator serves."""
    if wanted != chain_id:
        raise InconsistentClusterId(
            f"this coordinator serves cluster {chain_id}, the request is for {wanted[:64]!r}: connect again if the "
            "cluster was created again, else correct the address"
        )


def is_fenced(known: Coordinator, author: Author) -> bool:
    """True if the author is a coordinator that has resigned or was followed by another one: its entries change nothing
    (rule C1). `known` is the newest coordinator on the chain.
    """
    return 0 < author.epoch < known.epoch or (author.epoch == known.epoch > 0 and not known.in_force)


def not_in_force(known: Coordinator, author: Author) -> NotController:
    """Return the error for a command that was sent to the fenced coordinator `author`. It names the newest, `known`."""
    actual = f"{author.name} of epoch {author.epoch} no longer coordinates{_holder(known)}"
    return NotController(f"a command needs the coordinator in force, {actual}")


def _holder(known: Coordinator) -> str:
    if known.in_force:
        return f"; {known.name} at {known.address} has epoch {known.epoch}"
    return f"; the cluster has no coordinator, the last epoch was {known.epoch}"
