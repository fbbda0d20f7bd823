package org.apache.kafka.clients.consumer;

import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

public class KafkaConsumer<K, V> implements AutoCloseable {
  public KafkaConsumer(Map<String, Object> configs) {
    throw new AssertionError();
  }

  public void assign(Collection<TopicPartition> partitions) {}

  public void seek(TopicPartition partition, long offset) {}

  public ConsumerRecords<K, V> poll(Duration timeout) {
    return null;
  }

  public long position(TopicPartition partition) {
    return 0;
  }

  @Override
  public void close() {}
}
