"""Kafka's murmur2 of one key, step by step as in Java: the slow twin of `sparklog.core.producing.murmur2`."""

from __future__ import annotations

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """`org.apache.kafka.common.utils.Utils.murmur2`: a signed 32-bit integer."""
    hashed = (0x9747B28C ^ len(key)) & _MASK
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = (int.from_bytes(key[at : at + 4], "little") * _M) & _MASK
        word = ((word ^ (word >> 24)) * _M) & _MASK
        hashed = ((hashed * _M) & _MASK) ^ word
    if key[whole:]:
        hashed = ((hashed ^ int.from_bytes(key[whole:], "little")) * _M) & _MASK
    hashed = ((hashed ^ (hashed >> 13)) * _M) & _MASK
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed >> 31 else hashed


def partition_for_key(key: bytes, partitions: int) -> int:
    """`BuiltInPartitioner.partitionForKey`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
