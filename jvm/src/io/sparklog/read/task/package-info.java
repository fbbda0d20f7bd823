/**
 * A read in an executor: a task, its ranges, their slices, and the batches of a slice. Any doubt about a byte ends in
 * PythonReader. Read {@link io.sparklog.read.task.TaskReader} first, then RangeReader and SliceReader.
 */
package io.sparklog.read.task;
