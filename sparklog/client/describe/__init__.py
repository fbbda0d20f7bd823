"""Describes entries of the chain, records and a day's work. Read chain_tail.py first."""
