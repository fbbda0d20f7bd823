"""Turns slices into sealed segments, by a roll or a compaction. Read segment_roll.py first."""
