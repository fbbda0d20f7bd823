package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.arrow.Columns;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparkVersion;
import io.sparklog.planner.SparklogException;
import io.sparklog.read.PlannedRead;
import io.sparklog.storage.ObjectBytes;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("sparklog")} while this JAR is on the class path. Reads of records are columnar, and batches
 * are written in Java where it can; everything else is handed to the Python data source of the same name, which Spark
 * still finds in its own registry. Spark 3.5 has none: there, the planner refuses what is not for Java.
 *
 * <p>Spark prefers a service of this interface to a Python data source of the same name, also if the JAR is added to a
 * running session.
 */
public final class SparklogSource implements TableProvider, DataSourceRegister {
  /** The option that chooses between Java and Python: "auto" (the default), "columns" or "rows". */
  static final String READER = "reader";

  private TableProvider python;

  @Override
  public String shortName() {
    return "sparklog";
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    List<String> columns = columnsOf(options);
    return columns == null ? python().inferSchema(options) : Columns.schema(columns);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    if (!SparkVersion.hasPythonSources()) { // also of a write, whose options are not those of a read
      return new LogTable(null, schema, new PlannedRead(properties));
    }
    Table pythonTable = python().getTable(schema, partitioning, properties);
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(properties);
    boolean isPlain = Arrays.stream(schema.fields()).allMatch(SparklogSource::isColumn);
    boolean isRead = isPlain && columnsOf(options) != null && areReadable(options);
    return new LogTable(pythonTable, schema, isRead ? new PlannedRead(properties) : null);
  }

  /** True if Java has a file system for each store of the cluster. */
  private static boolean areReadable(CaseInsensitiveStringMap options) {
    JsonNode stores = ask("stores", options);
    return !stores.isNull() && Planner.strings(stores).stream().allMatch(ObjectBytes::isReadable);
  }

  /** The columns that a columnar read with these options has; null if the Python data source must read. */
  private static List<String> columnsOf(CaseInsensitiveStringMap options) {
    boolean isByRows = options.getOrDefault(READER, "auto").strip().equalsIgnoreCase("rows");
    if (isByRows && SparkVersion.hasPythonSources()) {
      return null;
    }
    JsonNode columns = ask("columns", options);
    return columns.isNull() ? null : Planner.strings(columns);
  }

  private static JsonNode ask(String request, CaseInsensitiveStringMap options) {
    return ask(Planner.request(request, options.asCaseSensitiveMap()));
  }

  private static JsonNode ask(ObjectNode request) {
    try {
      return Planner.ofDriver().ask(request);
    } catch (SparklogException error) {
      throw error.inDriver("plan");
    }
  }

  /** Throws Python's error for a schema that is not that of some columns of a log. */
  static void checkSchema(StructType schema) {
    if (!Arrays.stream(schema.fields()).allMatch(SparklogSource::isColumn)) {
      ask(Planner.JSON.createObjectNode().put("name", "check_schema").put("schema", schema.json()));
    }
  }

  private static boolean isColumn(StructField field) {
    return field.equals(Columns.FIELDS.get(field.name()));
  }

  private TableProvider python() {
    if (python == null) {
      python = SparkVersion.pythonSource(shortName());
    }
    return python;
  }
}
