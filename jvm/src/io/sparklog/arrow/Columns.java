package io.sparklog.arrow;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The columns of a read: those of Spark's Kafka source. */
public final class Columns {
  static final DataType HEADER =
      new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);
  static final DataType HEADERS = DataTypes.createArrayType(HEADER);

  /** The field of each column, by name. */
  public static final Map<String, StructField> FIELDS = new LinkedHashMap<>();

  static {
    add("key", DataTypes.BinaryType);
    add("value", DataTypes.BinaryType);
    add("topic", DataTypes.StringType);
    add("partition", DataTypes.IntegerType);
    add("offset", DataTypes.LongType);
    add("timestamp", DataTypes.TimestampType);
    add("timestampType", DataTypes.IntegerType);
    add("headers", HEADERS);
  }

  private Columns() {}

  /** The schema with these columns, in this order. */
  public static StructType schema(List<String> columns) {
    return new StructType(columns.stream().map(FIELDS::get).toArray(StructField[]::new));
  }

  private static void add(String name, DataType type) {
    FIELDS.put(name, new StructField(name, type, true, org.apache.spark.sql.types.Metadata.empty()));
  }
}
