"""Object stores behind one port: put-if-absent, ranged reads, listings, deletes.

Read object_store.py first: it is the port, with every promise an adapter must keep. keys.py builds and parses keys.
"""
