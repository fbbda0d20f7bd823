"""What a coordinator serves: app.py lists the routes, exchange.py is one request and its reply."""
