package io.sparklog.arrow;

import java.util.ArrayList;
import java.util.List;

/** The columns of an Arrow record batch, in their order: which buffers belong to which column. */
public record Layout(List<String> names, List<Kind> kinds) {
  /** How a column lies in a batch: the number of its field nodes and of its buffers. */
  enum Kind {
    INT32(1, 2),
    INT64(1, 2),
    BYTES(1, 3),
    HEADERS(4, 9); // list<struct<key: string, value: binary>>

    final int nodes;
    final int buffers;

    Kind(int nodes, int buffers) {
      this.nodes = nodes;
      this.buffers = buffers;
    }
  }

  public static final Layout STORED = of("key", "value", "headers", "timestamp");
  public static final Layout COMPACTED = of("key", "value", "headers", "timestamp", "offset");
  public static final Layout INDEX =
      of("topic_id", "partition", "first_record", "records", "position", "length", "crc32c", "min_timestamp_us",
          "max_timestamp_us");
  public static final Layout COMPACTED_INDEX =
      of("topic_id", "partition", "first_record", "records", "position", "length", "crc32c", "min_timestamp_us",
          "max_timestamp_us", "base_offset", "last_offset");

  public static Layout of(String... names) {
    List<Kind> kinds = new ArrayList<>();
    for (String name : names) {
      kinds.add(kind(name));
    }
    return new Layout(List.of(names), kinds);
  }

  private static Kind kind(String name) {
    return switch (name) {
      case "key", "value", "topic" -> Kind.BYTES;
      case "topic_id", "partition", "timestampType", "records", "crc32c" -> Kind.INT32;
      case "headers" -> Kind.HEADERS;
      default -> Kind.INT64;
    };
  }
}
