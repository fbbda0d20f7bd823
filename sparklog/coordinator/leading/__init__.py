"""One process leads and commits for all clients.

Read leadership.py first, then control.py (pure) and service.py (the shell, which does the I/O).
"""
