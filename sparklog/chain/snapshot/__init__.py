"""Snapshots of the state, so that a process opens the chain without reading all entries. Read snapshot.py first."""
