"""The service that coordinates a cluster. Read leading/ first (which process leads, and what it
does, in which order), then http/ (what it serves) and access/ (to whom). watching/ counts, and page/ shows.

Safety never depends on it: the chain orders whatever arrives, from coordinators and from everybody else.
"""
