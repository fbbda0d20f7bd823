package io.sparklog;

/** The plan of a task, the columns to read, and the bounds of what the query can use. */
record ReadPlan(String python, TaskPlan task, String[] columns, Bounds bounds) {}
