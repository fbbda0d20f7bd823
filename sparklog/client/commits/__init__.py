"""Brings commands into the chain, through a coordinator or by this process.

Read client_committer.py first: it decides between a coordinator and this process. delivery.py decides when to send a
command to a coordinator again, and shared_requests.py sends the commands of several threads together. commit_write.py
submits a write until it is done, many.py submits many commands, and unawaited.py submits without waiting.
"""
