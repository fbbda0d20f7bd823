package io.sparklog;

/** The plan of a task, the columns to read, and the bounds of what the query can use. */
record TaskScan(String python, ReadTask task, String[] columns, RecordBounds bounds) {}
