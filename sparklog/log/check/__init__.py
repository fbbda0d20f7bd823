"""Compare stored objects with their indexes, with the chain and with each other. Read object_check.py first."""
