"""Describes topics, chain entries and records for people and programs. Read topic_description.py first."""
