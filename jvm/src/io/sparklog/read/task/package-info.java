/**
 * A read in an executor: a task, its ranges, their slices, and the batches of a slice. If one holder fails or has wrong
 * bytes, the next one is asked. If none is left, or if records were given up, PythonReader reads the rest of the range.
 * Read {@link io.sparklog.read.task.TaskReader} first, then RangeReader and SliceReader.
 */
package io.sparklog.read.task;
