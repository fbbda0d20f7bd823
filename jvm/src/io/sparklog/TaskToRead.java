package io.sparklog;

import org.apache.spark.sql.connector.read.InputPartition;

/**
 * The ranges of one task, as the planner wrote them (JSON). It holds no secrets.
 *
 * @param python the Python that reads what Java cannot
 */
record TaskToRead(String python, String plan) implements InputPartition {}
