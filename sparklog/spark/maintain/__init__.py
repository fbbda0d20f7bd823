"""Runs the parts of maintenance jobs that read and rewrite objects, as Spark tasks. Read spark_tasks.py first."""
