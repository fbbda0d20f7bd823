package org.apache.kafka.common.header;

public interface Headers {
  Header[] toArray();
}
