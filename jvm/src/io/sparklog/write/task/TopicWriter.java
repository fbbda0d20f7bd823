package io.sparklog.write.task;

import io.sparklog.arrow.Murmur2;

/** Writes the rows of one task to one topic: each to its partition, each partition to the stores of its replicas. */
final class TopicWriter {
  private final TaskObjects task;
  private final WritePlan.Topic topic;
  private final ObjectsWriter[] writers; // by the number of the set of stores
  private int sticky;
  private int rows; // since the last move of `sticky`
  private boolean hasKeyless;

  /** `sticky`: modulo the number of partitions, the partition of the first records without a key. */
  TopicWriter(TaskObjects task, WritePlan.Topic topic, int sticky) {
    this.task = task;
    this.topic = topic;
    this.sticky = sticky % topic.partitions();
    writers = new ObjectsWriter[topic.storeSets().size()];
  }

  /** True if the topic takes such a record. `partition`: the one that the row names, or null. */
  boolean takes(LogRecord row, Integer partition, boolean hasTimestamp) {
    return (row.key() != null || !topic.needsKey())
        && row.hasHeaderKeys()
        && row.sizeBytes() <= topic.maxMessageBytes()
        && (partition == null || partition >= 0 && partition < topic.partitions())
        && (!hasTimestamp || topic.takesTimestamp(row.timestampUs()));
  }

  void add(LogRecord row, Integer partition) {
    int chosen = partition == null ? partitionOf(row.key()) : partition;
    if (row.key() == null && !hasKeyless) {
      hasKeyless = true;
      task.written.addKeyless(topic.id());
    }
    if (++rows >= topic.rowsToGather()) {
      rows = 0;
      sticky = (sticky + 1) % topic.partitions();
    }
    if (task.byPython != null) {
      task.byPython.add(topic, chosen, row);
      return;
    }
    int set = topic.setOf(chosen);
    if (writers[set] == null) {
      writers[set] = task.begin(topic, topic.storeSets().get(set));
    }
    writers[set].add(chosen, row);
    task.closeLargest();
  }

  /** The partition that Kafka's default partitioner chooses. */
  private int partitionOf(byte[] key) {
    return key == null ? sticky : Murmur2.partition(key, topic.partitions());
  }
}
