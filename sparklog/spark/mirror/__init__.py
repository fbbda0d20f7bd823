"""Mirrors topics of a Kafka cluster, records at their offsets. Read mirror_job.py first, then mirror_plan.py.

Java reads Kafka (jvm/src/io/sparklog/mirror). Only kafka_cluster.py asks Kafka anything else; its
groups are asked by client/groups/kafka_groups.py, without Spark.
"""
