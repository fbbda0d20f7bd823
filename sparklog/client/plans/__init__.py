"""Plans batch reads, streams and writes, and does each task's part of a write.

Read read_plan.py and write_plan.py first.
"""
