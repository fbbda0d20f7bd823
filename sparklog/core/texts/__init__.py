"""Texts from users: their UTF-8 (user_text.py), and JSON whose values need not decode (json_text.py)."""
