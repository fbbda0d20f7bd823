"""The API of a cluster for Python programs, and the plans of reads and writes that Spark's driver uses too.

Read cluster.py first; every process that uses a cluster has a `Connection` (connection.py). plans/ has the plans,
commits/ brings commands into the chain, groups/ is for consumer groups, and producer/ and consumer/ have the producer
and the consumer of Python programs.
"""
