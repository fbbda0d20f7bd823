"""A whole cluster of real processes under random troubles: `make soak`, and each trouble once or more in `make test`.

Writers and readers keep journals; at the end `checker.py` compares them with each other and with every replica.
"""
