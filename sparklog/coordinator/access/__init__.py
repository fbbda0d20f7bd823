"""Identifies the caller of each request, checks the caller's rights, and writes the audit. Read gate.py first."""
