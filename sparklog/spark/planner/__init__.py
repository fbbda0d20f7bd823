"""The process that decides for Spark's JVM: `python -m sparklog.spark.planner`. Read planner.py first.

The JVM starts it on demand: in the driver it plans reads, plans and commits writes, in an executor it reads what Java
cannot, and words the errors of writes. It imports pyspark only for writes, in the driver.
"""
