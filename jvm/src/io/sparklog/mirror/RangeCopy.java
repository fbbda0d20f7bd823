package io.sparklog.mirror;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import io.sparklog.arrow.Encoder;
import io.sparklog.arrow.GrowingColumn;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
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
 * Copies one range: Kafka's records become encoded batches, which a planner uploads to any kind of store, or compares with
 * those that are there. From the first empty offset on, batches store offsets. The last batch is held back until the range
 * ends.
 */
final class RangeCopy implements AutoCloseable {
  private static final int BATCH_BYTES = 8 << 20;
  private static final int BATCH_ROWS = 1 << 17;
  private static final int ROW_BYTES = 24; // of timestamp, offset and the ends of texts
  private static final Duration POLL = Duration.ofSeconds(1);
  private static final int SILENT_POLLS = 120; // as many seconds as Spark's connector waits for a record
  private static final Map<String, String> DEFAULTS =
      Map.of(
          "max.poll.records", "50000",
          "max.partition.fetch.bytes", "33554432",
          "receive.buffer.bytes", "1048576",
          "fetch.max.wait.ms", "10"); // all offsets of a range are there: only `close` would wait for others
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
  private final Encoder encoder;
  private final String plan;
  private boolean isOpen = true;
  private Planner.Exchange sent; // the last batch; null if it was taken
  private final GrowingColumn.Strings key = new GrowingColumn.Strings();
  private final GrowingColumn.Strings value = new GrowingColumn.Strings();
  private final GrowingColumn.Headers headers = new GrowingColumn.Headers();
  private final GrowingColumn.Numbers timestamp = new GrowingColumn.Numbers();
  private final GrowingColumn.Numbers offset = new GrowingColumn.Numbers();
  private boolean isAppendTime; // of the rows in these columns
  private boolean storesOffsets;
  private long firstOffset;
  private long lastOffset;
  private long minTimestampUs;
  private long maxTimestampUs;
  private long bytes;
  private long records;
  private boolean hasKeyless;

  RangeCopy(KafkaCopy.KafkaRange range, Map<String, String> kafka, String plan, String python) {
    this.range = range;
    this.plan = plan;
    partition = new TopicPartition(range.topic(), range.partition());
    encoder = new Encoder(range.purpose().compression(), range.purpose().smallBatchBytes());
    storesOffsets = range.purpose().alwaysOffsets();
    lastOffset = range.baseOffset() - 1;
    planner = Planner.of(python);
    ObjectNode request = request(range.purpose().request()).put("plan", plan).put("partition", range.partition());
    writer = Planner.json(planner.exchange(request.put("from", range.baseOffset()))).asLong();
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
      consumer.seek(partition, range.start());
      end = copied();
    } catch (KafkaException error) {
      throw KafkaErrors.of(error);
    }
    storesOffsets |= end > lastOffset + 1; // so that the last object covers the empty offsets after its last record, too
    flush();
    await();
    ObjectNode result = Planner.JSON.createObjectNode().put("end", end).put("records", records);
    ObjectNode request = ofWriter("end_rows").put("end", end).put("keyless", hasKeyless);
    String said = Planner.json(planner.exchange(request)).toString();
    isOpen = false;
    return result.putRawValue("result", new RawValue(said)).toString();
  }

  /** The offset after the last one that is copied: `end`, unless there are more records than a task copies. */
  private long copied() {
    long position = range.start();
    int silentPolls = 0;
    while (position < range.end()) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL).records(partition)) {
        if (record.offset() >= range.end()) {
          return range.end();
        }
        add(record);
        if (records == range.maxRecords()) {
          return record.offset() + 1;
        }
      }
      long before = position;
      position = consumer.position(partition); // after markers and aborted records, too
      silentPolls = position > before ? 0 : silentPolls + 1;
      if (silentPolls == SILENT_POLLS) {
        throw new SparklogException(
            "Kafka's REQUEST_TIMED_OUT: " + place() + ": Kafka sent nothing for offsets [" + position + ", "
                + range.end() + ") in " + SILENT_POLLS + " s", null);
      }
    }
    return range.end();
  }

  private void add(ConsumerRecord<byte[], byte[]> record) {
    boolean ofAppend = record.timestampType() == TimestampType.LOG_APPEND_TIME;
    boolean isGap = !storesOffsets && record.offset() != lastOffset + 1;
    if (isGap || bytes >= BATCH_BYTES || offset.rows() >= BATCH_ROWS || ofAppend != isAppendTime) {
      flush();
      isAppendTime = ofAppend;
      storesOffsets |= isGap;
    }
    GrowingColumn.Header[] ofRecord = headers(record.headers().toArray());
    long timestampUs = micros(record);
    long size = size(record.key()) + size(record.value());
    if (ofRecord != null) {
      for (GrowingColumn.Header header : ofRecord) {
        size += header.sizeBytes();
      }
    }
    if (size > range.purpose().maxMessageBytes() || range.purpose().needsKey() && record.key() == null) {
      throw refused(record, ofRecord, timestampUs);
    }
    boolean isFirst = offset.rows() == 0;
    firstOffset = isFirst ? record.offset() : firstOffset;
    lastOffset = record.offset();
    minTimestampUs = isFirst ? timestampUs : Math.min(minTimestampUs, timestampUs);
    maxTimestampUs = isFirst ? timestampUs : Math.max(maxTimestampUs, timestampUs);
    hasKeyless |= record.key() == null;
    key.add(record.key());
    value.add(record.value());
    headers.add(ofRecord);
    timestamp.add(timestampUs);
    offset.add(record.offset());
    bytes += size + ROW_BYTES;
    records++;
  }

  /** The error of a record that the topic here does not take, in Python's words. */
  private SparklogException refused(
      ConsumerRecord<byte[], byte[]> record, GrowingColumn.Header[] ofRecord, long timestampUs) {
    ObjectNode row = request("refuse_row").put("plan", plan).putNull("topic").put("partition", range.partition());
    row.put("key", record.key()).put("value", record.value()).put("timestamp_us", timestampUs);
    ArrayNode pairs = ofRecord == null ? null : row.putArray("headers");
    if (pairs == null) {
      row.putNull("headers");
    } else {
      for (GrowingColumn.Header header : ofRecord) {
        pairs.addObject().put("key", header.key()).put("value", header.value());
      }
    }
    try {
      planner.exchange(row);
    } catch (SparklogException error) {
      return new SparklogException(error.getMessage() + " (" + place() + ", offset " + record.offset() + ")", error);
    }
    throw new IllegalStateException("the planner has no objection");
  }

  private long micros(ConsumerRecord<byte[], byte[]> record) {
    try {
      return Math.multiplyExact(record.timestamp(), 1000L);
    } catch (ArithmeticException error) {
      throw new SparklogException(
          "Kafka's INVALID_TIMESTAMP: " + place() + ": the record at offset " + record.offset() + " is of "
              + record.timestamp() + " ms, which does not fit into 64-bit microseconds", error);
    }
  }

  /** The headers of a record; null if it has none, as Spark's connector says. */
  private static GrowingColumn.Header[] headers(Header[] ofRecord) {
    if (ofRecord.length == 0) {
      return null;
    }
    GrowingColumn.Header[] taken = new GrowingColumn.Header[ofRecord.length];
    for (int i = 0; i < taken.length; i++) {
      taken[i] = new GrowingColumn.Header(ofRecord[i].key().getBytes(StandardCharsets.UTF_8), ofRecord[i].value());
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
    GrowingColumn[] stored = storesOffsets ? columns : Arrays.copyOf(columns, columns.length - 1);
    byte[] batch = encoder.encode(range.purpose().topicId(), range.partition(), offset.rows(), stored);
    ObjectNode rows = ofWriter("rows").put("partition", range.partition()).put("records", offset.rows());
    rows.put("first", firstOffset).put("last", lastOffset).put("stores_offsets", storesOffsets);
    rows.put("min_timestamp_us", minTimestampUs).put("max_timestamp_us", maxTimestampUs);
    await();
    sent = planner.begin(rows.put("timestamp_type", isAppendTime ? 1 : 0), batch);
    for (GrowingColumn column : columns) {
      column.clear();
    }
    bytes = 0;
  }

  /** Wait until the planner has taken the batch that was sent before. */
  private void await() {
    if (sent != null) {
      Planner.Exchange before = sent;
      sent = null;
      before.await();
    }
  }

  private void drop() {
    if (isOpen) {
      isOpen = false;
      try {
        await(); // a batch that comes after the end would begin another object
      } catch (SparklogException error) {
        // Nothing is left to be taken.
      }
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
    encoder.close();
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
