"""The HTTP interface of a coordinator: app.py lists the routes, exchange.py handles one request and its reply."""
