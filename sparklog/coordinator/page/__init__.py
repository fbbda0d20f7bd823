"""The pages of a coordinator for people. Begin with `routes.py`; `views.py` says what is on each page.

The pages only show. Everything is rendered here, without anything from other hosts.
"""
