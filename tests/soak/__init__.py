"""A whole cluster of real processes under random troubles: `make soak`, and 60 seconds of it in `make test`.

Writers and readers keep journals; at the end `checker.py` compares them with each other and with every replica.
"""
