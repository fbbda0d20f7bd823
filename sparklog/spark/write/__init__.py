"""Writes, in batches and in micro-batches. Each is one command in the driver."""
