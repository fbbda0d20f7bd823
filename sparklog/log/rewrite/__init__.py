"""Slices become sealed segments, by a roll or a compaction."""
