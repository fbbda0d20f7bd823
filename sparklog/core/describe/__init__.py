"""The state in words and numbers that people read. Nothing is decided here."""
