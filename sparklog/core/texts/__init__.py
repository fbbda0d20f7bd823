"""Texts from users: their UTF-8, and JSON whose values need not decode. Read user_text.py first."""
