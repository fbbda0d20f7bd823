"""The cost of a log on object storage: requests of operations, prices, the work of a day, and what it costs.

Read request_costs.py first: the numbers of requests that docs/cost.md shows and a test measures. cost_report.py is the
end of it.
"""
