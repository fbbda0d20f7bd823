"""The agent of a store: it fetches the objects that its replicas lack, reports them, and detects lost data.

`agent.py` is a state machine without I/O, clock or dice; `run.py` drives it with threads. Read agent_requests.py first,
then agent.py. An agent never deletes or overwrites anything.
"""
