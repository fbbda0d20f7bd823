"""One process leads and commits for all clients.

Read leadership.py, then control.py (pure) and service.py (the shell).
"""
