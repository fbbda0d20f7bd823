/**
 * What Spark and its users name: a data source, and a catalog of topics. Read {@link io.sparklog.SparklogSource} first.
 * Then read and write, which run in the driver, and their task, which runs in executors; planner asks Python, arrow has the
 * columns of batches, storage the bytes of objects, mirror copies topics of Kafka. docs/paths.md follows a read and a write.
 */
package io.sparklog;
