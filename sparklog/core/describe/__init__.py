"""The state in human-readable words and numbers. Nothing is decided here. Read readable.py first."""
