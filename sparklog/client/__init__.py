"""A cluster for Python programs, and the plans of reads and writes that Spark's driver uses too.

Read cluster.py first; connection.py is what every process that uses a cluster holds. producer/ and consumer/ are the
producer and the consumer of Python programs.
"""
