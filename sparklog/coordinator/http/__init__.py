"""The HTTP interface of a coordinator. Read app.py (the routes) first, then exchange.py (a request and its reply)."""
