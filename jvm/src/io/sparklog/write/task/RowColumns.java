package io.sparklog.write.task;

import io.sparklog.arrow.GrowingColumn.Header;
import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Where the rows of a write have the columns of a log. The planner has checked their types. */
final class RowColumns implements Serializable {
  private static final int HEADER_FIELDS = 2;

  private final Column topic;
  private final Column partition;
  private final Column key;
  private final Column value;
  private final Column headers;
  private final Column timestamp;

  /** A column of the rows: its position, and its type. */
  private record Column(int at, DataType type) implements Serializable {
    boolean isIn(InternalRow row) {
      return !row.isNullAt(at);
    }

    byte[] bytes(InternalRow row) {
      return type.equals(DataTypes.BinaryType) ? row.getBinary(at) : row.getUTF8String(at).getBytes();
    }

    int number(InternalRow row) {
      return type.equals(DataTypes.IntegerType)
          ? row.getInt(at)
          : type.equals(DataTypes.ShortType) ? row.getShort(at) : row.getByte(at);
    }
  }

  RowColumns(StructType schema) {
    topic = column(schema, "topic");
    partition = column(schema, "partition");
    key = column(schema, "key");
    value = column(schema, "value");
    headers = column(schema, "headers");
    timestamp = column(schema, "timestamp");
  }

  /** The topic that a row names, or null. */
  String topic(InternalRow row) {
    return has(topic, row) ? row.getUTF8String(topic.at()).toString() : null;
  }

  /** The partition that a row names, or null. */
  Integer partition(InternalRow row) {
    return has(partition, row) ? partition.number(row) : null;
  }

  boolean hasTimestamp(InternalRow row) {
    return has(timestamp, row);
  }

  /** The record of a row; its timestamp is `nowUs` if it has none. */
  LogRecord record(InternalRow row, long nowUs) {
    return new LogRecord(
        has(key, row) ? key.bytes(row) : null,
        has(value, row) ? value.bytes(row) : null,
        has(headers, row) ? headers(row.getArray(headers.at())) : null,
        has(timestamp, row) ? row.getLong(timestamp.at()) : nowUs);
  }

  private static Header[] headers(ArrayData array) {
    Header[] headers = new Header[array.numElements()];
    for (int i = 0; i < headers.length; i++) {
      headers[i] = array.isNullAt(i) ? null : header(array.getStruct(i, HEADER_FIELDS));
    }
    return headers;
  }

  private static Header header(InternalRow pair) {
    byte[] key = pair.isNullAt(0) ? null : pair.getUTF8String(0).getBytes();
    return new Header(key, pair.isNullAt(1) ? null : pair.getBinary(1));
  }

  private static boolean has(Column column, InternalRow row) {
    return column != null && column.isIn(row);
  }

  private static Column column(StructType schema, String name) {
    for (int i = 0; i < schema.length(); i++) {
      if (schema.fields()[i].name().equals(name)) {
        return new Column(i, schema.fields()[i].dataType());
      }
    }
    return null;
  }
}
