"""A cluster as Python programs use it, and the plans of reads and writes that Spark's driver uses too.

Read cluster.py first; connection.py says what every process that uses a cluster holds.
"""
