"""Adds and removes stores of a cluster, checks their health, and takes back fenced ones. Read add_store.py first."""
