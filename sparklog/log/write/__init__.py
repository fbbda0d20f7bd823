"""Turns rows into uploaded objects. Read topic_writer.py first, then objects_writer.py."""
