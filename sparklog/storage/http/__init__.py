"""The metadata store as a client sees it that has only addresses of coordinators: to be read, not written.

Read store.py first; coordinator_addresses.py chooses the coordinator that is asked.
"""
