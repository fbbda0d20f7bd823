"""Mirrors: copies of the chain on other stores, from which a lost chain is restored. Read mirrors.py first."""
