"""The web pages of a coordinator. Begin with `routes.py`; `views.py` has the content of each page.

The pages only show data, except for those in `actions/`, which change it. Pages load nothing from other hosts.
"""
