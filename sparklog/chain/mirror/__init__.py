"""Mirrors: the chain on other stores, from which a lost chain is restored. Read mirrors.py first.

Names that users see (`metadata.copies`, the folder copies/, messages) call a mirror a copy of the chain.
"""
