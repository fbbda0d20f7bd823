"""The page of a topic's records, `/topics/{name}/messages`. Begin with `record_query.py`, which says what it can show.

`record_reading.py` reads within bounds, `record_views.py` makes words of what was read, `record_routes.py` checks the
right to read it.
"""
