package io.sparklog.mirror;

import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import io.sparklog.arrow.Encoder;
import io.sparklog.arrow.GrowingColumn;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;

/**
 * Copies one range: Kafka's records become Arrow batches, which a planner uploads to any kind of store, or compares with
 * those that are there.
 */
final class RangeCopy implements AutoCloseable {
  private static final int BATCH_BYTES = 8 << 20;
  private static final int BATCH_ROWS = 1 << 17;
  private static final Duration POLL = Duration.ofSeconds(1);
  private static final int SILENT_POLLS = 120; // as many seconds as Spark's connector waits for a record
  private static final Map<String, String> DEFAULTS =
      Map.of("max.poll.records", "50000", "max.partition.fetch.bytes", "33554432", "receive.buffer.bytes", "1048576");
  private static final Map<String, String> REQUIRED =
      Map.of(
          "key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer",
          "value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer",
          "enable.auto.commit", "false",
          "auto.offset.reset", "none", // offsets that are not there any more are an error
          "allow.auto.create.topics", "false",
          "isolation.level", "read_committed");

  private final KafkaCopy.KafkaRange range;
  private final TopicPartition partition;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private final Planner planner;
  private final long writer;
  private boolean isOpen = true;
  private final Encoder encoder = new Encoder("none", 0);
  private final GrowingColumn.Strings key = new GrowingColumn.Strings();
  private final GrowingColumn.Strings value = new GrowingColumn.Strings();
  private final GrowingColumn.Headers headers = new GrowingColumn.Headers();
  private final GrowingColumn.Numbers timestamp = new GrowingColumn.Numbers();
  private final GrowingColumn.Numbers offset = new GrowingColumn.Numbers();
  private boolean isAppendTime; // of the rows in these columns
  private long bytes;
  private long records;

  RangeCopy(KafkaCopy.KafkaRange range, Map<String, String> kafka, String plan, String python) {
    this.range = range;
    partition = new TopicPartition(range.topic(), range.partition());
    planner = Planner.of(python);
    ObjectNode request = request(range.request()).put("plan", plan);
    request.putObject("keeps").put("partition", range.partition()).put("next", range.from());
    writer = Planner.json(planner.exchange(request)).asLong();
    Map<String, Object> config = new HashMap<>(DEFAULTS);
    config.putAll(kafka);
    config.putAll(REQUIRED);
    try {
      consumer = new KafkaConsumer<>(config);
    } catch (KafkaException error) {
      drop();
      throw KafkaErrors.of(error);
    }
  }

  /** Copy the range. The result has what the planner says, the number of records, and the offset up to which it came. */
  String run() {
    long end;
    try {
      consumer.assign(List.of(partition));
      consumer.seek(partition, range.first());
      end = copied();
    } catch (KafkaException error) {
      throw KafkaErrors.of(error);
    }
    flush();
    ObjectNode result = Planner.JSON.createObjectNode().put("end", end).put("records", records);
    String said = Planner.json(planner.exchange(ofWriter("end_rows").put("end", end))).toString();
    isOpen = false;
    return result.putRawValue("result", new RawValue(said)).toString();
  }

  /** The offset after the last one that is copied: `until`, unless there are more records than a task copies. */
  private long copied() {
    long position = range.first();
    int silentPolls = 0;
    while (position < range.until()) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL).records(partition)) {
        if (record.offset() >= range.until()) {
          return range.until();
        }
        add(record);
        if (records == range.maxRecords()) {
          return record.offset() + 1;
        }
      }
      long before = position;
      position = consumer.position(partition); // behind markers and aborted records, too
      silentPolls = position > before ? 0 : silentPolls + 1;
      if (silentPolls == SILENT_POLLS) {
        throw new SparklogException(
            "Kafka's REQUEST_TIMED_OUT: " + place() + ": wanted offsets from " + position + " to " + range.until()
                + ", found none in " + SILENT_POLLS + " s", null);
      }
    }
    return range.until();
  }

  private void add(ConsumerRecord<byte[], byte[]> record) {
    boolean ofAppend = record.timestampType() == TimestampType.LOG_APPEND_TIME;
    if (bytes >= BATCH_BYTES || offset.rows() >= BATCH_ROWS || ofAppend != isAppendTime) {
      flush();
      isAppendTime = ofAppend;
    }
    key.add(record.key());
    value.add(record.value());
    headers.add(headers(record.headers().toArray()));
    timestamp.add(micros(record));
    offset.add(record.offset());
    bytes += size(record.key()) + size(record.value()) + 16;
    records++;
  }

  private long micros(ConsumerRecord<byte[], byte[]> record) {
    try {
      return Math.multiplyExact(record.timestamp(), 1000L);
    } catch (ArithmeticException error) {
      throw new SparklogException(
          "Kafka's INVALID_TIMESTAMP: " + place() + ": the record at offset " + record.offset() + " is of "
              + record.timestamp() + " ms, which is no time in microseconds of 64 bits", error);
    }
  }

  /** The headers of a record; null if it has none, as Spark's connector says. */
  private GrowingColumn.Header[] headers(Header[] ofRecord) {
    if (ofRecord.length == 0) {
      return null;
    }
    GrowingColumn.Header[] taken = new GrowingColumn.Header[ofRecord.length];
    for (int i = 0; i < taken.length; i++) {
      taken[i] = new GrowingColumn.Header(ofRecord[i].key().getBytes(StandardCharsets.UTF_8), ofRecord[i].value());
      bytes += taken[i].sizeBytes() + 8;
    }
    return taken;
  }

  private static int size(byte[] text) {
    return text == null ? 0 : text.length;
  }

  /** Hand the rows over, unless there are none. */
  private void flush() {
    if (offset.rows() == 0) {
      return;
    }
    GrowingColumn[] columns = {key, value, headers, timestamp, offset};
    byte[] batch = encoder.encodePlain(offset.rows(), columns);
    ObjectNode rows = ofWriter("rows").put("partition", range.partition()).put("timestamp_type", isAppendTime ? 1 : 0);
    planner.exchange(rows, batch);
    for (GrowingColumn column : columns) {
      column.clear();
    }
    bytes = 0;
  }

  private void drop() {
    if (isOpen) {
      isOpen = false;
      try {
        planner.exchange(ofWriter("drop_rows"));
      } catch (SparklogException error) {
        // The planner has ended, and its writers with it.
      }
    }
  }

  @Override
  public void close() {
    drop();
    consumer.close();
  }

  private String place() {
    return range.topic() + "-" + range.partition();
  }

  private ObjectNode ofWriter(String name) {
    return request(name).put("writer", writer);
  }

  private static ObjectNode request(String name) {
    return Planner.JSON.createObjectNode().put("name", name);
  }
}
