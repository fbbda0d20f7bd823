package io.sparklog;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The result of one task attempt: its number, its host, and what Python calls a TaskWritten, as JSON. */
record TaskMessage(int task, String host, String written) implements WriterCommitMessage {}
