"""The web pages of a coordinator. Begin with `routes.py`; `views.py` has the content of each page.

The pages only show, except for those in `actions/`. Everything is rendered here, without anything from other hosts.
"""
