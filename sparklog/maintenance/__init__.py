"""What brokers do in the background, as jobs: `jobs.py` lists them. Nothing here imports Spark.

Read frame.py first: every job plans, prints its plan, works, commits, deletes and reports in the same way. tasks.py is
the port to whatever runs the heavy part.
"""
