"""Failures of a running cluster, one by one: what shows each of them, after how long, and which command mends it."""
