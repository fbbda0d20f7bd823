"""The service that coordinates a cluster. Begin with `leadership.py`: which process leads, and since when.

Safety never depends on it: the chain orders whatever arrives, from coordinators and from everybody else.
"""
