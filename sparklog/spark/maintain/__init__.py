"""The heavy part of maintenance jobs, as Spark tasks."""
