"""The process that decides for Spark's JVM: `python -m sparklog.spark.planner`. Read planner.py first.

The JVM starts it on demand. In the driver, it plans reads, plans and commits writes, and manages the topics of Spark's
catalog. In an executor, it reads what Java cannot, and raises the errors of writes. It imports pyspark only in the
driver, for writes and streams.
"""
