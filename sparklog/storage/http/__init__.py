"""The metadata store for a client that has only addresses of coordinators: it can be read, not written.

Read store.py first. coordinator_addresses.py chooses the coordinator to ask.
"""
