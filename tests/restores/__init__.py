"""Clusters of real processes that lose their metadata, and are restored from its copies while the old ones live on.

`lost_round.py` tells what happens in a round, `promises.py` what must be true after it. Read the round first.
"""
