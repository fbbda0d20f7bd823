"""Turns rows into uploaded objects. Read topic_writer.py first, then object_writer.py."""
