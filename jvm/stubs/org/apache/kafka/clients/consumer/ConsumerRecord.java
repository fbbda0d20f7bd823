package org.apache.kafka.clients.consumer;

import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.record.TimestampType;

public class ConsumerRecord<K, V> {
  public long offset() {
    return 0;
  }

  public long timestamp() {
    return 0;
  }

  public TimestampType timestampType() {
    return null;
  }

  public K key() {
    return null;
  }

  public V value() {
    return null;
  }

  public Headers headers() {
    return null;
  }
}
