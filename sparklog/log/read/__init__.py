"""Turns slices into rows. Read scan.py first, then object_reader.py."""
