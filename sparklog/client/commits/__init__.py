"""Brings commands into the chain, through a coordinator or by this process.

Read coordinated.py first: it chooses the way; delivery.py and shared_requests.py are the way to a coordinator.
commit_write.py submits a write until it is done; many.py submits many commands, unawaited.py submits without waiting.
"""
