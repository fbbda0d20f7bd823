"""The metadata log: numbered entries on a store, and the machines and shells that write and follow it.

Read entry.py first, then commit/ (writing) and follow/ (reading new entries). snapshot/ opens a chain quickly, and
mirror/ keeps mirrors of it on other stores. The machines (core/machine.py) only yield requests and do no I/O: shells
perform them.
"""
