"""Kafka's murmur2, so that a key lands in the partition where a Java Kafka producer puts it.

Source: `org.apache.kafka.common.utils.Utils.murmur2` and `BuiltInPartitioner.partitionForKey`, here for all keys of an
Arrow binary column without a loop over its rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_MASK: Final = 0xFFFFFFFF
_FEW_ROWS: Final = 16  # below this many keys a step of numpy costs more than the same step in plain Python

OffsetArray = npt.NDArray[np.int32] | npt.NDArray[np.int64]


def murmur2_of_keys(offsets: OffsetArray, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """The hashes of n keys as Java sees them: signed, int32[n].

    Key i is `data[offsets[i]:offsets[i + 1]]`: `offsets` are the n + 1 ascending offsets of an Arrow binary array, and
    `data` is its value buffer. The first offset need not be 0, and the data may continue after the last one, so sliced
    arrays need no copy. A null key counts as empty; the caller knows the validity bits and routes rows with null keys
    by other rules.
    """
    return _hash(np.asarray(offsets, dtype=np.int64), data).view(np.int32)


def partitions_for_keys(
    offsets: OffsetArray, data: npt.NDArray[np.uint8], partitions: int
) -> npt.NDArray[np.uint16] | npt.NDArray[np.int32]:
    """The partitions, from 0, of n keys (`toPositive(hash) % partitions`); arguments as in `murmur2_of_keys`.

    Returns uint16[n] (which numpy sorts by radix) if every partition number fits, else int32[n].
    """
    positive = murmur2_of_keys(offsets, data).view(np.uint32) & np.uint32(0x7FFFFFFF)
    chosen = positive % np.uint32(partitions)
    return chosen.astype(np.uint16) if partitions <= 1 << 16 else chosen.view(np.int32)


def _absorb(hashed: int, key: bytes, start: int) -> int:
    """Mix the whole 4-byte words of `key` from byte `start` on into the hash `hashed`, and return the new hash."""
    for at in range(start, len(key) & ~3, 4):
        word = (int.from_bytes(key[at : at + 4], "little") * _M) & _MASK
        word = ((word ^ (word >> _R)) * _M) & _MASK
        hashed = ((hashed * _M) & _MASK) ^ word
    return hashed


def _hash(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    lengths = np.diff(offsets)
    if len(lengths) == 0:
        return np.empty(0, dtype=np.uint32)
    length = int(lengths[0])
    if (lengths == length).all():
        return _hash_of_one_length(data[int(offsets[0]) : int(offsets[-1])], len(lengths), length)
    return _hash_of_mixed_lengths(offsets, lengths, data)


def _hash_of_one_length(data: npt.NDArray[np.uint8], rows: int, length: int) -> npt.NDArray[np.uint32]:
    """Hashes of `rows` keys of `length` bytes each, stored back to back."""
    hashed = np.full(rows, (_SEED ^ length) & _MASK, dtype=np.uint32)
    words, rest = divmod(length, 4)
    keys = data.reshape(rows, length)
    for at in range(words):
        # Copy out one column of words at a time, because the table may start at any byte.
        word = np.ascontiguousarray(keys[:, 4 * at : 4 * at + 4]).view("<u4").reshape(rows)
        _mix(hashed, _stirred(word))
    if rest:
        for shift in range(rest):
            hashed ^= keys[:, 4 * words + shift].astype(np.uint32) << np.uint32(8 * shift)
        hashed *= np.uint32(_M)
    return _avalanche(hashed)


def _hash_of_mixed_lengths(
    offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]
) -> npt.NDArray[np.uint32]:
    """Return the hashes of keys of any lengths, in the order of the keys.

    Sorts the keys by length, longest first. So the keys that still have a whole 4-byte word to mix in come first.
    """
    longest = int(lengths.max())
    short = longest - lengths
    order = np.argsort(short.astype(np.uint16) if longest < 1 << 16 else short, kind="stable")
    starts, sizes = offsets[:-1][order], lengths[order]
    hashed = ((_SEED ^ sizes) & _MASK).astype(np.uint32)
    words = sizes >> 2
    rows_by_step = len(words) - np.searchsorted(words[::-1], np.arange(longest >> 2), side="right")
    window = _words_at_every_byte(data)
    positions = starts.copy()
    for step, rows in enumerate(rows_by_step.tolist()):
        if rows < _FEW_ROWS:
            for row in range(rows):
                key = data[int(starts[row]) : int(starts[row] + sizes[row])].tobytes()
                hashed[row] = _absorb(int(hashed[row]), key, 4 * step)
            break
        word = window[positions[:rows]]
        positions[:rows] += 4
        _mix(hashed[:rows], _stirred(word))
    rests = sizes & 3
    tails = starts + (sizes & ~np.int64(3))
    for shift in range(3):
        rows_with = np.flatnonzero(rests > shift)
        hashed[rows_with] ^= data[tails[rows_with] + shift].astype(np.uint32) << np.uint32(8 * shift)
    np.multiply(hashed, np.uint32(_M), out=hashed, where=rests > 0)
    result = np.empty_like(hashed)
    result[order] = _avalanche(hashed)
    return result


def _words_at_every_byte(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """View `data` so that element i is the little-endian word of 4 bytes at [i, i + 4). Nothing is copied."""
    data = np.ascontiguousarray(data)
    return np.ndarray(shape=(max(0, len(data) - 3),), dtype="<u4", buffer=data, strides=(1,))


def _stirred(word: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    word = word * np.uint32(_M)
    word ^= word >> np.uint32(_R)
    word *= np.uint32(_M)
    return word


def _mix(hashed: npt.NDArray[np.uint32], word: npt.NDArray[np.uint32]) -> None:
    hashed *= np.uint32(_M)
    hashed ^= word


def _avalanche(hashed: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    hashed ^= hashed >> np.uint32(13)
    hashed *= np.uint32(_M)
    hashed ^= hashed >> np.uint32(15)
    return hashed
