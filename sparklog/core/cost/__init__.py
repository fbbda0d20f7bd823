"""The cost of a log on object storage: requests of operations, prices, the work of a day, and what it costs.

Read requests.py first: the numbers of requests that docs/cost.md shows and a test measures. report.py is the end of it.
"""
