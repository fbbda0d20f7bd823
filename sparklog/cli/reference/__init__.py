"""Writes the reference pages under docs/ from the code: `make docs`."""
