"""Describes topics, chain entries and records for users and programs. Read topic_description.py first."""
