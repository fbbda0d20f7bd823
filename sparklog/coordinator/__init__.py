"""The service that coordinates a cluster. Read `leadership.py` first (which process leads, and since when), then
`control.py` (what it does, in which order) and `service.py` (the shell); `app.py` lists what it serves over HTTP.

Safety never depends on it: the chain orders whatever arrives, from coordinators and from everybody else.
"""
