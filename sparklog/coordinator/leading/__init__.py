"""The election of the coordinator that leads, and its work: it commits for all clients.

Read leadership.py first, then control.py (pure) and service.py (the shell, which does the I/O).
"""
