"""A whole cluster in one thread, seed by seed: real code, simulated stores, faults, and checks after each entry.

Read world.py first, then observer.py for the promises and faults.py for what goes wrong. `make sim` runs it for long.
"""
