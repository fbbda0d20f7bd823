"""The caller of each request, the caller's rights, and the audit line of the request. Read gate.py first."""
