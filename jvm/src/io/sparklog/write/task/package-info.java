/**
 * A write in an executor: rows go to partitions, to batches, to objects, to stores; the classes are twins of those in
 * {@code sparklog/log/write}. Read {@link io.sparklog.write.task.TaskWriter} first, then TaskObjects.
 */
package io.sparklog.write.task;
