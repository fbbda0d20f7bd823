"""The agent of a store: it fetches what the replicas there lack, reports it, and finds out if the store lost data.

`agent.py` is a state machine without I/O, clock or dice; `run.py` drives it with threads. Read agent_requests.py first,
then agent.py. An agent never deletes or overwrites anything.
"""
