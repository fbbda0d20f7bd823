"""The cost of a log on object storage: requests of operations, prices, the work of a day, and its cost.

Read request_costs.py first: the numbers of requests that docs/cost.md shows and a test measures. cost_report.py
combines everything.
"""
