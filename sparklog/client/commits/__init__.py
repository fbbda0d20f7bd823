"""Commands on their way into the chain, by a coordinator or by this process.

Read coordinated.py first: it chooses the way; delivery.py and shared_requests.py are the way to a coordinator.
append.py submits a write until it is done; many.py and unawaited.py submit many commands, or without waiting.
"""
