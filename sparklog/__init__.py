"""sparklog: a partitioned, replicated log on object storage, read and written from Spark."""

__version__ = "0.1.0"
