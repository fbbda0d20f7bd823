"""The process that decides for Spark's JVM: `python -m sparklog.spark.planner`. Read planner.py first.

The JVM starts it on demand: in the driver it plans reads, in an executor it reads what Java cannot. It does not import
pyspark.
"""
