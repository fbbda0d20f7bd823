"""Texts from users: their UTF-8, and JSON that is read without decoding its values. Read user_text.py first."""
