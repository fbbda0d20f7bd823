"""The metadata store as a client sees it that has only addresses of coordinators: to be read, not written.

Begin with `store.py`; `coordinators.py` chooses the coordinator that is asked.
"""
