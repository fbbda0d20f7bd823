"""The page of a topic's records, `/topics/{name}/messages`. Begin with `record_query.py`, which says what a page shows.

`record_reading.py` reads within bounds, `record_views.py` formats the records, `record_routes.py` checks the right to
read them.
"""
