"""An entry of the metadata chain: its bytes, and the hash that links it to the previous entry."""

from __future__ import annotations

import hashlib

import msgspec

from sparklog.chain.damaged_chain import damage
from sparklog.chain.framing import frame, unframe
from sparklog.core.coordination import Author
from sparklog.core.errors import InvalidInput
from sparklog.core.records import AppliedCommand, At
from sparklog.core.texts.user_text import surrogate_message
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_key

NO_PREVIOUS = "0" * 64  # the previous hash in entry 0


class Entry(msgspec.Struct, frozen=True):
    """One entry: the commands of one group commit. `previous` is the hash of entry n-1.

    `nonce` makes entries with equal content distinct.
    """

    chain_id: str
    n: EntryNumber
    author: Author
    nonce: str
    previous: str
    time_ms: int
    commands: tuple[AppliedCommand, ...]

    @property
    def at(self) -> At:
        """The number and time of the entry."""
        return At(self.n, self.time_ms)


class EncodedEntry(msgspec.Struct, frozen=True):
    """An `Entry` to be written. Its commands are already encoded, one by one, by `encode_command`."""

    chain_id: str
    n: EntryNumber
    author: Author
    nonce: str
    previous: str
    time_ms: int
    commands: tuple[msgspec.Raw, ...]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry)
_command_decoder = msgspec.json.Decoder(AppliedCommand)


def encode_entry(entry: Entry | EncodedEntry) -> bytes:
    """Return the bytes of an entry's object: JSON in a frame."""
    return frame("entry", _encoder.encode(entry))


def encode_command(command: AppliedCommand) -> msgspec.Raw:
    """Encode a command for its entry.

    Raises InvalidInput if the result could not be decoded, because a value has a wrong type or size. Python does not
    check these when the command is constructed, and an entry can't be changed once it is in the chain.
    """
    try:
        encoded = _encoder.encode(command)
        _command_decoder.decode(encoded)
        msgspec.msgpack.encode(command)  # the form in snapshots
    except UnicodeEncodeError as error:
        raise InvalidInput(surrogate_message(error, f"command {command.command_id}")) from None
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"command {command.command_id} holds a value of the wrong type or size: {error}") from error
    return msgspec.Raw(encoded)


def decode_entry(n: int, body: bytes | memoryview, store_url: str = "") -> Entry:
    """Decode the entry read from slot `n` of the store at `store_url`. Raises ChainDamaged, UnsupportedVersion."""
    key = entry_key(n)
    payload = unframe("entry", body, key, store_url)
    try:
        entry = _decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise damage(key, f"its checksum is right, but it can't be read: {error}", store_url) from error
    if entry.n != n:
        raise damage(key, f"wanted entry {n}, found entry {entry.n}", store_url)
    return entry


def hash_of(body: bytes | memoryview) -> str:
    """Return the SHA-256 of an entry's body, as hex digits. The next entry has it as `previous`."""
    return hashlib.sha256(body).hexdigest()
