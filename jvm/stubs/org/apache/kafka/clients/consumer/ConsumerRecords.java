package org.apache.kafka.clients.consumer;

import java.util.List;
import org.apache.kafka.common.TopicPartition;

public class ConsumerRecords<K, V> {
  public List<ConsumerRecord<K, V>> records(TopicPartition partition) {
    return null;
  }
}
