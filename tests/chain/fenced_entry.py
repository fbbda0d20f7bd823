"""A chain whose newest entry was written by a fenced coordinator, as a faulty one could."""

from __future__ import annotations

from sparklog.chain.commit.committer import Committer, new_command_id
from sparklog.chain.entry import EncodedEntry, encode_command, encode_entry
from sparklog.chain.follow.follower import Follower
from sparklog.core.commands import ClaimCoordination
from sparklog.core.coordination import Author
from sparklog.core.records import AppliedCommand, FloorRaised
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_key


def claim(follower: Follower, epoch: int, times: int = 1) -> Committer:
    """Coordinator c<epoch> claims, and then says that it still leads."""
    committer = Committer(follower, Author("coordinator", f"c{epoch}", epoch))
    for _ in range(times):
        committer.submit(committer.begin(ClaimCoordination(epoch, f"c{epoch}", f"http://127.0.0.1:{epoch}")))
    return committer


def write_fenced_entry(follower: Follower) -> None:
    """c1 and c2 claim one after the other; then c1 raises FLOOR to 1. Three entries."""
    for epoch in (1, 2):
        claim(follower, epoch)
    head = follower.head
    forged = AppliedCommand(new_command_id(), EntryNumber(head.n), (FloorRaised(EntryNumber(1)),))
    at, commands = EntryNumber(head.n + 1), (encode_command(forged),)
    author = Author("coordinator", "c1", 1)
    entry = EncodedEntry(head.state.chain_id, at, author, "f" * 32, head.entry_hash, 7, commands)
    follower.store.put_if_absent(entry_key(at), encode_entry(entry))
