"""Reads and writes in Java (jvm/), and the planner beside them (sparklog/spark/planner/).

    test_columns.py          reads: SparklogSource, LogScan, the readers of a task
    test_mirrored_columns.py  reads and streams of mirror topics: ObjectIndex, SliceReader
    test_column_streams.py   streams: LogStream, LogStreamWrite
    test_column_writes.py    writes: LogWrite, the writers of a task
    test_column_replicas.py  writes to several stores: StoreLanes
    test_write_attempts.py   writes whose tasks die: TaskWriter, LogBatchWrite
    test_dying_planners.py   reads, writes and statements whose planners die: Planner, PythonReader, LogBatchWrite
    test_write_faults.py     writes to an HDFS with faults: HadoopFolder
    test_local_faults.py     writes to disks with faults: LocalFolder
    test_s3a.py              reads through S3A
    test_catalog.py          LogCatalog and TopicTable
    test_python_functions.py  functions in Python over what was read
    tests/jvm/test_planner.py  the planner's process without Spark: Planner
    tests/jvm/test_fuzz.py     damaged objects and indexes: SliceReader, ObjectIndex, Decoder

After a change: make test TESTS='tests/spark/columns tests/jvm', make test-columns (the other tests of Spark, by Java),
and make guards ARGS='--only jvm/' (or one of them, such as --only java-crc).
"""
