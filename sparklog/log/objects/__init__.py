"""Data objects together with their indexes: look for them, copy and delete them, and find those that nothing names.

Read object_look.py first.
"""
