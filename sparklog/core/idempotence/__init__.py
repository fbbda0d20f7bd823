"""Producers and applications whose writes happen at most once: sequence numbers, epochs, versions.

Read producers.py first.
"""
