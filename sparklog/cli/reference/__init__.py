"""Writes the reference pages under docs/ from the code: `make docs`. Read generate_docs.py first."""
