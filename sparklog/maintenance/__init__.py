"""The work that brokers do in the background: roll, retention, vacuum. It imports no Spark.

Read frame.py first: plan, show, work, commit, delete, report are the same for every job. tasks.py is the port to
whatever runs the heavy part.
"""
