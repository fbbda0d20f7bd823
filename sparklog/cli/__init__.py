"""The `sparklog` command: one file per noun, in folders by subject. Read main.py first; output.py formats the results.

Heavy modules are imported only when a command runs.
"""
