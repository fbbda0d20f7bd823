"""The caller of each request, its rights, and the audit line of what it did."""
