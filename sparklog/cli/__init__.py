"""The `sparklog` command: one file per noun. Read main.py first; output.py decides how answers look.

Nothing heavy is imported before a command runs.
"""
