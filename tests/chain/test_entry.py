"""Entries: what was written is read back, and nothing altered is taken for an entry."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.chain import framing
from sparklog.chain.entry import NO_PREVIOUS, Entry, decode_entry, encode_entry, hash_of
from sparklog.core.coordination import Author
from sparklog.core.errors import ChainDamaged, UnsupportedVersion
from sparklog.core.records import AppliedCommand, FloorRaised
from sparklog.core.state import FORMAT
from sparklog.core.types import CommandId, EntryNumber
from tests.chain.chain_kit import new_chain
from tests.core.every_record import EVERY_RECORD

ENTRY = Entry(
    "c" * 32,
    EntryNumber(7),
    Author("coordinator", "ö:1", 3),
    "f" * 32,
    NO_PREVIOUS,
    1_700_000_000_000,
    (AppliedCommand(CommandId("d" * 32), EntryNumber(6), (FloorRaised(EntryNumber(5)),)),),
)


def test_what_was_encoded_is_decoded() -> None:
    assert decode_entry(7, encode_entry(ENTRY)) == ENTRY


@pytest.mark.parametrize("record", EVERY_RECORD, ids=lambda each: type(each).__name__)
def test_every_kind_of_record_is_read_as_it_was_written(record: object) -> None:
    command = AppliedCommand(CommandId("d" * 32), EntryNumber(6), (record,))  # type: ignore[arg-type]
    entry = msgspec.structs.replace(ENTRY, commands=(command,))
    assert decode_entry(7, encode_entry(entry)) == entry


def test_every_flipped_bit_is_a_named_error() -> None:
    body = encode_entry(ENTRY)
    for at in range(len(body) * 8):
        flipped = bytearray(body)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises((ChainDamaged, UnsupportedVersion), match=r"meta/log/0{16}/0{19}7: .*(wanted|format)"):
            decode_entry(7, bytes(flipped))


def test_every_cut_and_every_tail_is_a_named_error() -> None:
    body = encode_entry(ENTRY)
    for length in range(len(body)):
        with pytest.raises(ChainDamaged, match=r"meta/log/0{16}/0{19}7: wanted|found"):
            decode_entry(7, body[:length])
    for tail in (b"\0", b"\n", body):
        with pytest.raises(ChainDamaged, match=r"meta/log/0{16}/0{19}7: "):
            decode_entry(7, body + tail)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_entry_are_a_named_error(body: bytes) -> None:
    with pytest.raises((ChainDamaged, UnsupportedVersion)):
        decode_entry(7, body)


def test_an_entry_in_another_slot_is_damage() -> None:
    with pytest.raises(ChainDamaged, match="wanted entry 8, found entry 7"):
        decode_entry(8, encode_entry(ENTRY))


def in_format(number: int, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The entry as a version with this format writes it."""
    with monkeypatch.context() as patch:
        patch.setattr(framing, "FORMAT", number)
        return encode_entry(ENTRY)


def test_an_entry_of_a_newer_format_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedVersion, match=f"format {FORMAT}, found format {FORMAT + 1}: use a newer sparklog"):
        decode_entry(7, in_format(FORMAT + 1, monkeypatch))


def test_an_entry_of_a_format_that_was_never_released_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedVersion, match=f"found format {FORMAT - 1}: it was written before the first release"):
        decode_entry(7, in_format(FORMAT - 1, monkeypatch))


@pytest.mark.parametrize(
    "other", [b"1", b"%d" % (FORMAT - 1), b"%d" % (FORMAT + 1), b"%d" % (FORMAT + 2), b"x", b"-5", b"9" * 5_000]
)
def test_an_entry_is_not_taken_for_one_of_another_format(other: bytes) -> None:
    body = encode_entry(ENTRY).replace(b"sparklog-entry %d " % FORMAT, b"sparklog-entry %s " % other, 1)
    with pytest.raises(ChainDamaged, match=f"wanted format {FORMAT}, found '{other.decode()[:60]}'"):
        decode_entry(7, body)


def test_each_entry_names_the_hash_of_the_one_before() -> None:
    chain = new_chain()
    chain.append()
    before = NO_PREVIOUS
    for key in [each.key for each in chain.store.list_keys("meta/log/")]:
        body = chain.store.get(key)
        assert decode_entry(int(key[-20:]), body).previous == before
        before = hash_of(body)
    assert chain.follower.entry_hash == before


def test_a_nonce_makes_two_entries_of_the_same_content_differ() -> None:
    other = msgspec.structs.replace(ENTRY, nonce="e" * 32)
    assert hash_of(encode_entry(ENTRY)) != hash_of(encode_entry(other))
