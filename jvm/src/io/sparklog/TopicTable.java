package io.sparklog;

import io.sparklog.arrow.Columns;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A topic as a table of a {@link LogCatalog}: {@code format("sparklog")} with the options of the catalog and, in a
 * statement of its own, those of {@code WITH (startingOffsets = …)}.
 */
final class TopicTable implements SupportsRead, SupportsWrite {
  private static final Set<String> TOPIC_OPTIONS = Set.of("topic", "subscribe");

  private final String catalog;
  private final String topic;
  private final Map<String, String> options;
  private final Map<String, String> properties;
  private Table records;

  TopicTable(String catalog, String topic, Map<String, String> options, Map<String, String> properties) {
    this.catalog = catalog;
    this.topic = topic;
    this.options = options;
    this.properties = properties;
  }

  @Override
  public String name() {
    return catalog + "." + topic;
  }

  @SuppressWarnings("deprecation") // Spark 4.0 has no other way
  @Override
  public StructType schema() {
    return records().schema();
  }

  @Override
  public Map<String, String> properties() {
    return properties;
  }

  @Override
  public Set<TableCapability> capabilities() {
    Set<TableCapability> capabilities = EnumSet.copyOf(records().capabilities());
    capabilities.add(TableCapability.ACCEPT_ANY_SCHEMA); // an INSERT names some of the columns
    return capabilities;
  }

  @SuppressWarnings("deprecation") // Spark 4.0 has no other way
  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    Map<String, String> own = given.asCaseSensitiveMap();
    Table read = own.isEmpty() ? records() : recordsWith(own);
    if (!read.schema().equals(records().schema())) {
      throw LogCatalog.refused(
          "options that choose columns are those of the catalog: SET spark.sql.catalog." + catalog + ".<option>",
          own.keySet().toString());
    }
    return ((SupportsRead) read).newScanBuilder(with("subscribe", own));
  }

  /** A write of some of a record's columns. Others are refused: a statement would lose them with a line in the log. */
  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    List<String> others = new ArrayList<>(List.of(info.schema().fieldNames()));
    others.removeAll(Columns.FIELDS.keySet());
    if (!others.isEmpty()) {
      throw LogCatalog.refused(
          "the names of columns say what is written: INSERT INTO " + name() + " (key, value) …, or SELECT … AS value,"
              + " with some of " + String.join(", ", Columns.FIELDS.keySet()),
          String.join(", ", others));
    }
    CaseInsensitiveStringMap writeOptions = with("topic", info.options().asCaseSensitiveMap());
    return ((SupportsWrite) records()).newWriteBuilder(new TopicWrite(info, writeOptions));
  }

  /** One table for all reads without options of their own, so that they have one plan. */
  private synchronized Table records() {
    if (records == null) {
      records = recordsWith(Map.of());
    }
    return records;
  }

  private Table recordsWith(Map<String, String> own) {
    CaseInsensitiveStringMap given = with("subscribe", own);
    SparklogSource source = new SparklogSource();
    return source.getTable(source.inferSchema(given), new Transform[0], given.asCaseSensitiveMap());
  }

  /** The options of the catalog, over them those of a statement, and the topic under the name `option`. */
  private CaseInsensitiveStringMap with(String option, Map<String, String> own) {
    Map<String, String> merged = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    merged.putAll(options);
    own.forEach((name, value) -> {
      if (TOPIC_OPTIONS.contains(name.toLowerCase(Locale.ROOT)) && !value.equals(topic)) {
        throw LogCatalog.refused("the table " + name() + " is the topic " + topic, name + " = " + value);
      }
      merged.put(name, value);
    });
    merged.put(option, topic);
    return new CaseInsensitiveStringMap(merged);
  }

  /** What Spark says of a write, with the options of the table. */
  private record TopicWrite(LogicalWriteInfo info, CaseInsensitiveStringMap options) implements LogicalWriteInfo {
    @Override
    public String queryId() {
      return info.queryId();
    }

    @Override
    public StructType schema() {
      return info.schema();
    }

    @Override
    public Optional<StructType> rowIdSchema() {
      return info.rowIdSchema();
    }

    @Override
    public Optional<StructType> metadataSchema() {
      return info.metadataSchema();
    }
  }
}
