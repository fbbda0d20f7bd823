/**
 * Copies ranges of a Kafka topic, a task for each: Java reads Kafka, the planner uploads. Planned and committed by {@code
 * sparklog/spark/mirror}. Read {@link io.sparklog.mirror.KafkaCopy} first.
 */
package io.sparklog.mirror;
