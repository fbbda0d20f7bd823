"""Keys of objects: the only module that builds or parses them.

    meta/log/<block>/<n>                         an entry of the metadata chain; block = n div 4096
    meta/snapshot/<10^20-1-n>                    a snapshot of the state after entry n; the newest is listed first
    meta/chunks/<sha256>                         a table chunk that snapshots share
    meta/commands/<n0>-<command id>[-<body>]     the slices of a large command; body = 1, 2, … for its later objects
    meta/void/<block>                            a mark that this block of entries is being deleted, or is gone
    meta/restores/<number>                       the beginning of a restored chain, or a mark that gives this restore up
    INCARNATION                                  the store's identity, a uuid; it changes when the store is wiped
    OWNER/<number>                               the chain that owns the store since the restore of this number
    copies/<chain id>/…                          on other stores: copies of the objects under meta/, with the same names
    copies/checkpoints/<chain id>/<name>/<n>     on the stores: checkpoints as of entry n
    copies/peers/<store>/<n>                     on the stores: another store of the cluster, as of entry n
    append/<2 hex>/<n0>-<upload id>.arrow        the upload of one writer task, and its .index
    topics/<topic id>-<topic>/<partition>/<base offset>-<leader epoch>-<n0>-<upload id>.arrow    a sealed segment
    probe/<id>-…                                 objects that a probe of the store writes and then removes

Entry numbers, n0 and base offsets have 20 digits and block numbers 16, so keys sort in the order of their numbers.
Topic ids, partitions and leader epochs are written without leading zeros. Each object has exactly one key: a parser
accepts only keys that its builder makes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparklog.core.errors import ChainDamaged, InvalidInput
from sparklog.core.names.legal_keys import KEY_FORM, is_legal_key
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    LeaderEpoch,
    NewObject,
    ObjectKind,
    Offset,
    PartitionIndex,
    TopicId,
    UploadId,
)

ENTRIES_PER_BLOCK = 4096  # read only in this file, so that tests can make blocks small by changing it here
META = "meta/"
LOG = "meta/log/"
SNAPSHOTS = "meta/snapshot/"
CHUNKS = "meta/chunks/"
COMMANDS = "meta/commands/"
VOID = "meta/void/"
RESTORES = "meta/restores/"
INCARNATION = "INCARNATION"
OWNERS = "OWNER/"
COPIES = "copies/"
CHECKPOINTS = "copies/checkpoints/"
PEERS = "copies/peers/"
APPENDS = "append/"
TOPICS = "topics/"
PROBES = "probe/"

_NUMBER_END = 10**20
_BLOCK_END = 10**16
_FOLDER_NAME_CHARS = 255  # the longest name that a directory of ext4, XFS or HDFS holds

_HEX_32 = re.compile(r"[0-9a-f]{32}")
_HEX_64 = re.compile(r"[0-9a-f]{64}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ENTRY = re.compile(r"meta/log/([0-9]{16})/([0-9]{20})")
_SNAPSHOT = re.compile(r"meta/snapshot/([0-9]{20})")
_COMMAND = re.compile(r"meta/commands/([0-9]{20})-([0-9a-f]{32})(?:-([1-9][0-9]{0,8}))?")
_CHECKPOINT = re.compile(r"copies/checkpoints/([A-Za-z0-9_-]{1,64})/([a-z][a-z-]{0,63})/([0-9]{20})")
_PEER = re.compile(r"copies/peers/([A-Za-z0-9_-][A-Za-z0-9._-]{0,254})/([0-9]{20})")
_OWNER = re.compile(r"OWNER/([0-9]{20})")
_RESTORE = re.compile(rf"{RESTORES}([0-9]{{20}})")
_APPEND = re.compile(r"append/([0-9a-f]{2})/([0-9]{20})-(\1[0-9a-f]{30})\.(arrow|index)")
_SEGMENT = re.compile(
    r"topics/(0|[1-9][0-9]*)-([A-Za-z0-9._-]{1,249})/(0|[1-9][0-9]*)/"
    r"([0-9]{20})-(0|[1-9][0-9]*)-([0-9]{20})-([0-9a-f]{32})\.(arrow|index)"
)


@dataclass(frozen=True, slots=True)
class DataName:
    """The fields of the key of a data object, or of its index.

    `topic_id` and the fields after it are None for an append object. `topic` is for display only: a name too long for a
    directory is truncated. `topic_id` identifies the topic.
    """

    kind: ObjectKind
    n0: EntryNumber
    upload_id: UploadId
    is_index: bool
    topic_id: TopicId | None = None
    topic: str | None = None
    partition: PartitionIndex | None = None
    base_offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None


def check_key(key: str) -> str:
    """Return `key` if every store can hold it and it stays inside the store (`is_legal_key`). Raises InvalidInput."""
    if not is_legal_key(key):
        raise InvalidInput(f"a key has {KEY_FORM}, not {key!r}")
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix` if it is empty or a legal key can begin with it. Otherwise raises InvalidInput."""
    if prefix and not is_legal_key(prefix.removesuffix("/")):
        raise InvalidInput(f"a prefix is the beginning of a key, relative and without leading dots, not {prefix!r}")
    return prefix


def is_key_part(name: str) -> bool:
    """True if `name` is legal as one part of a key, between two '/'."""
    return "/" not in name and is_legal_key(name)


# ---- the metadata chain -------------------------------------------------------------------------


def entry_block(n: int) -> int:
    """The block that contains entry `n`."""
    return n // ENTRIES_PER_BLOCK


def block_entries(block: int) -> range:
    """The numbers of the entries that a block holds when it is complete."""
    return range(block * ENTRIES_PER_BLOCK, (block + 1) * ENTRIES_PER_BLOCK)


def entry_block_prefix(block: int) -> str:
    """The prefix of the keys of a block's entries."""
    return f"{LOG}{_block_digits(block)}/"


def entry_key(n: int) -> str:
    """Key of entry `n` of the metadata chain."""
    return f"{entry_block_prefix(entry_block(n))}{_digits(n, 'an entry number')}"


def entries_prefix(first: int, last: int) -> str:
    """The longest prefix that the keys of entries `first` to `last` have in common."""
    key, other = entry_key(first), entry_key(last)
    return key[: next((at for at in range(len(key)) if key[at] != other[at]), len(key))]


def parse_entry_key(key: str) -> EntryNumber:
    """The number of the entry under `key`. Raises ChainDamaged if it isn't an entry's key, or is in the wrong block."""
    match = _ENTRY.fullmatch(key)
    if match is None or entry_block(int(match[2])) != int(match[1]):
        raise ChainDamaged(
            f"an entry is named {LOG}<16 digits>/<20 digits> inside its block, found {key!r}: "
            "if it is not sparklog's, move it away"
        )
    return EntryNumber(int(match[2]))


def snapshot_key(n: int) -> str:
    """Key of the snapshot of the state after entry `n`. A later snapshot has a smaller key."""
    return f"{SNAPSHOTS}{_NUMBER_END - 1 - int(_digits(n, 'an entry number')):020d}"


def parse_snapshot_key(key: str) -> EntryNumber:
    """The entry after which the snapshot under `key` was taken. Raises ChainDamaged if it isn't a snapshot's key."""
    match = _SNAPSHOT.fullmatch(key)
    if match is None:
        raise ChainDamaged(
            f"a snapshot is named {SNAPSHOTS}<20 digits>, found {key!r}: if it is not sparklog's, move it away"
        )
    return EntryNumber(_NUMBER_END - 1 - int(match[1]))


def chunk_key(sha256: str) -> str:
    """Key of a snapshot's chunk, from the SHA-256 of its bytes as 64 hex digits."""
    if _HEX_64.fullmatch(sha256) is None:
        raise InvalidInput(f"a chunk is named by 64 lower-case hex digits, not {sha256!r}")
    return f"{CHUNKS}{sha256}"


def command_key(n0: int, command_id: str, body: int = 0) -> str:
    """Return the key of the body of a large command: an object with its slices, and with the holders of its uploads.

    `body` numbers the bodies of one command, from 0. If the uploads are copied to other stores, their holders change.
    If the command is then submitted again, it needs another body, because an object is never overwritten.
    """
    return f"{COMMANDS}{_digits(n0, 'n0')}-{_hex_32(command_id, 'a command id')}{f'-{body}' if body else ''}"


def parse_command_key(key: str) -> tuple[EntryNumber, CommandId, int] | None:
    """Return n0, the command id and the number `body` from a key that `command_key` made; None for any other key."""
    match = _COMMAND.fullmatch(key)
    return None if match is None else (EntryNumber(int(match[1])), CommandId(match[2]), int(match[3] or 0))


def void_key(block: int) -> str:
    """Key of the mark that says that a block of entries is being deleted, or is gone."""
    return f"{VOID}{_block_digits(block)}"


def restore_key(number: int) -> str:
    """Return the key under which restore `number` of a cluster puts the beginning of its chain.

    If another restore has put a mark there first, restore `number` is given up: it can't begin.
    """
    return f"{RESTORES}{_digits(number, 'a number of a restore')}"


def mirror_prefix(chain_id: str) -> str:
    """Return the prefix of all keys of a chain's mirror. There it takes the place of `meta/`."""
    if not is_key_part(chain_id):
        raise InvalidInput(f"a chain id is one part of a key, not {chain_id!r}")
    return f"{COPIES}{chain_id}/"


def mirror_key(chain_id: str, key: str) -> str:
    """Return the key in the mirror for the object under `key`, which begins with `meta/`.

    `key` may also be a prefix of such keys; the result is then a prefix.
    """
    if not key.startswith(META):
        raise InvalidInput(f"a mirror has objects under {META}, not of {key!r}")
    return mirror_prefix(chain_id) + key.removeprefix(META)


def original_key(chain_id: str, key: str) -> str:
    """Key of the object that was mirrored to `key`: the inverse of `mirror_key`."""
    return META + key.removeprefix(mirror_prefix(chain_id))


def checkpoints_prefix(chain_id: str) -> str:
    """Return the prefix of the keys of a chain's checkpoints on a store.

    It begins with `copies/checkpoints/`, and the keys of a mirror with `copies/<chain id>/`. No chain has the id
    `checkpoints`, so no checkpoint has the key of a mirrored object.
    """
    if not is_key_part(chain_id):
        raise InvalidInput(f"a chain id is one part of a key, not {chain_id!r}")
    return f"{CHECKPOINTS}{chain_id}/"


def checkpoint_key(chain_id: str, name: str, n: int) -> str:
    """Key of the checkpoint `name` as of entry `n`. A later checkpoint has a greater key."""
    key = f"{checkpoints_prefix(chain_id)}{name}/{_digits(n, 'an entry number')}"
    if _CHECKPOINT.fullmatch(key) is None:
        raise InvalidInput(f"a checkpoint has a name of a-z and -, and a chain id, not {key!r}")
    return key


def parse_checkpoint_key(key: str) -> tuple[str, str, EntryNumber] | None:
    """Return (chain id, name, entry number) from a checkpoint's key; None for any other key."""
    match = _CHECKPOINT.fullmatch(key)
    return None if match is None else (match[1], match[2], EntryNumber(int(match[3])))


def peer_key(store: str, n: int) -> str:
    """Return the key of what is known about the peer `store` as of entry `n`. A later entry has a greater key."""
    if not is_key_part(store):
        raise InvalidInput(f"a store id is one part of a key, not {store!r}")
    return f"{PEERS}{store}/{_digits(n, 'an entry number')}"


def parse_peer_key(key: str) -> tuple[str, EntryNumber] | None:
    """Return (store, entry number) from the key of a peer; None for any other key."""
    match = _PEER.fullmatch(key)
    return None if match is None else (match[1], EntryNumber(int(match[2])))


def owner_key(number: int) -> str:
    """Return the key of the OWNER mark that restore `number` puts on a store. The first restore is number 1."""
    return f"{OWNERS}{_digits(number, 'a number of a restore')}"


def parse_owner_key(key: str) -> int | None:
    """Return the number of the restore from the key of an OWNER mark; None for any other key."""
    match = _OWNER.fullmatch(key)
    return None if match is None else int(match[1])


def parse_restore_key(key: str) -> int | None:
    """Return the number of the restore from the key of the beginning of its chain; None for any other key."""
    match = _RESTORE.fullmatch(key)
    return None if match is None else int(match[1])


# ---- data objects -------------------------------------------------------------------------------


def data_key(obj: NewObject, topic_name: str) -> str:
    """Return the key of a data object, whether it is committed or not. Only a sealed segment's key has `topic_name`.

    Raises InvalidInput if a field that the key needs is missing or illegal.
    """
    if obj.kind is ObjectKind.APPEND:
        return append_key(obj.n0, obj.upload_id)
    n0 = _digits(obj.n0, "n0")
    upload_id = _hex_32(obj.upload_id, "an upload id")
    if obj.partition is None or obj.base_offset is None or obj.leader_epoch is None:
        raise InvalidInput(f"a sealed segment is named by partition, base offset and leader epoch, found {obj!r}")
    if min(obj.topic_id, obj.partition, obj.leader_epoch) < 0:
        raise InvalidInput(f"topic id, partition and leader epoch are not negative, found {obj!r}")
    if _TOPIC.fullmatch(topic_name) is None:
        raise InvalidInput(f"a topic name is 1 to 249 of a-z A-Z 0-9 . _ -, not {topic_name!r}")
    folder = f"{obj.topic_id}-{topic_name}"[:_FOLDER_NAME_CHARS]
    base_offset = _digits(obj.base_offset, "a base offset")
    return f"{TOPICS}{folder}/{obj.partition}/{base_offset}-{obj.leader_epoch}-{n0}-{upload_id}.arrow"


def append_key(n0: int, upload_id: str) -> str:
    """Key of an append object. `n0`: the chain position up to which its writer had read when it began."""
    upload_id = _hex_32(upload_id, "an upload id")
    return f"{APPENDS}{upload_id[:2]}/{_digits(n0, 'n0')}-{upload_id}.arrow"


def index_key(key: str) -> str:
    """Key of the index that belongs to the data object under `key`."""
    if not key.endswith(".arrow"):
        raise InvalidInput(f"a data object's key ends with .arrow, not {key!r}")
    return f"{key.removesuffix('.arrow')}.index"


def parse_data_key(key: str) -> DataName | None:
    """Parse the key of a data object or of its index; return None for any other key."""
    if (match := _APPEND.fullmatch(key)) is not None:
        return DataName(ObjectKind.APPEND, EntryNumber(int(match[2])), UploadId(match[3]), is_index=match[4] == "index")
    if (match := _SEGMENT.fullmatch(key)) is None:
        return None
    return DataName(
        ObjectKind.SEGMENT,
        EntryNumber(int(match[6])),
        UploadId(match[7]),
        is_index=match[8] == "index",
        topic_id=TopicId(int(match[1])),
        topic=match[2],
        partition=PartitionIndex(int(match[3])),
        base_offset=Offset(int(match[4])),
        leader_epoch=LeaderEpoch(int(match[5])),
    )


def _digits(number: int, what: str) -> str:
    if not 0 <= number < _NUMBER_END:
        raise InvalidInput(f"{what} has at most 20 digits and is not negative, found {number}")
    return f"{number:020d}"


def _block_digits(block: int) -> str:
    if not 0 <= block < _BLOCK_END:
        raise InvalidInput(f"a block number has at most 16 digits and is not negative, found {block}")
    return f"{block:016d}"


def _hex_32(text: str, what: str) -> str:
    if _HEX_32.fullmatch(text) is None:
        raise InvalidInput(f"{what} is 32 lower-case hex digits, not {text!r}")
    return text
