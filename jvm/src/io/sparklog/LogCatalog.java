package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.arrow.Columns;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The topics of a cluster as the tables of a catalog, without namespaces.
 *
 * <p>{@code spark.sql.catalog.log=io.sparklog.LogCatalog} and {@code spark.sql.catalog.log.cluster=…} make the topic
 * orders the table log.orders. The other options of the catalog are those of each read and write of its tables.
 *
 * <p>It stages new tables, because Spark would drop a table before it replaces it: so this can be refused.
 */
public final class LogCatalog extends ColumnCatalog implements SupportsNamespaces {
  /** Properties that Spark gives each new table by itself. */
  private static final Set<String> OF_SPARK = Set.of(PROP_PROVIDER, TableCatalog.PROP_OWNER);

  private String name;
  private Map<String, String> options;

  @Override
  public void initialize(String catalog, CaseInsensitiveStringMap given) {
    name = catalog;
    options = given.asCaseSensitiveMap();
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String[][] listNamespaces() {
    return new String[0][];
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    checkNamespace(namespace);
    return new String[0][];
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    checkNamespace(namespace);
    return Map.of();
  }

  private static void checkNamespace(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length > 0) {
      throw new NoSuchNamespaceException(namespace);
    }
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    throw refusedNamespace("CREATE NAMESPACE " + String.join(".", namespace));
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw refusedNamespace("ALTER NAMESPACE " + String.join(".", namespace));
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw refusedNamespace("DROP NAMESPACE " + String.join(".", namespace));
  }

  private static RuntimeException refusedNamespace(String found) {
    return refused("topics have no namespaces", found);
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    checkNamespace(namespace);
    return Planner.strings(ask(Planner.request("topics", options))).stream()
        .map(topic -> Identifier.of(namespace, topic))
        .toArray(Identifier[]::new);
  }

  @Override
  public Table loadTable(Identifier table) throws NoSuchTableException {
    JsonNode properties = table.namespace().length > 0 ? null : ask(request("topic", table));
    if (properties == null || properties.isNull()) {
      throw new NoSuchTableException(table);
    }
    Map<String, String> texts = new HashMap<>();
    properties.fieldNames().forEachRemaining(key -> texts.put(key, properties.get(key).asText()));
    return new TopicTable(name, table.name(), options, texts);
  }

  @Override
  public Table loadTable(Identifier table, String version) {
    throw refusedPast("VERSION AS OF");
  }

  @Override
  public Table loadTable(Identifier table, long timestamp) {
    throw refusedPast("TIMESTAMP AS OF");
  }

  private static RuntimeException refusedPast(String found) {
    return refused("WITH (startingOffsets = …, endingOffsets = …) reads a part of a topic", found);
  }

  @SuppressWarnings("deprecation") // Spark 4.0 has no other way
  @Override
  public Table createTable(
      Identifier table, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    for (Column column : columns) {
      StructField given = new StructField(column.name(), column.dataType(), column.nullable(), Metadata.empty());
      if (!given.equals(Columns.FIELDS.get(column.name())) || column.comment() != null) {
        throw refusedColumn(given.toDDL() + (column.comment() == null ? "" : " COMMENT"));
      }
    }
    return created(table, columns, partitioning, properties);
  }

  /** For {@code CREATE TABLE … AS}. The write refuses columns of other types than it takes. */
  @SuppressWarnings("deprecation")
  @Override
  public StagedTable stageCreate(
      Identifier table, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return new StagedTopic(created(table, columns, partitioning, properties), () -> dropTable(table));
  }

  @SuppressWarnings("deprecation")
  @Override
  public StagedTable stageReplace(
      Identifier table, Column[] columns, Transform[] partitioning, Map<String, String> properties) {
    throw refused(
        "a log can't be replaced or overwritten; CREATE TABLE creates a topic, DROP TABLE deletes one without records,"
            + " DROP TABLE … PURGE any",
        "REPLACE TABLE");
  }

  @SuppressWarnings("deprecation")
  @Override
  public StagedTable stageCreateOrReplace(
      Identifier table, Column[] columns, Transform[] partitioning, Map<String, String> properties) {
    return stageReplace(table, columns, partitioning, properties);
  }

  private TopicTable created(
      Identifier table, Column[] columns, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    checkNamespace(table.namespace());
    for (Column column : columns) {
      if (!Columns.FIELDS.containsKey(column.name())) {
        throw refusedColumn(column.name());
      }
    }
    if (partitioning.length > 0) {
      throw refused("TBLPROPERTIES ('partitions' = '3') says how many partitions a topic has", "PARTITIONED BY");
    }
    ObjectNode request = request("create_topic", table);
    ObjectNode given = request.putObject("properties");
    properties.forEach((key, value) -> {
      if (!OF_SPARK.contains(key)) {
        given.put(key, value);
      }
    });
    if (!change(request, table).asBoolean()) {
      throw new TableAlreadyExistsException(table);
    }
    return new TopicTable(name, table.name(), options, properties);
  }

  private static RuntimeException refusedColumn(String found) {
    String all = Columns.FIELDS.values().stream().map(StructField::toDDL).collect(Collectors.joining(", "));
    return refused("a topic has the columns " + all, found);
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) throws NoSuchTableException {
    loadTable(table);
    ObjectNode request = request("alter_topic", table);
    ObjectNode set = request.putObject("properties");
    ArrayNode removed = request.putArray("removed");
    for (TableChange change : changes) {
      if (change instanceof TableChange.SetProperty property) {
        set.put(property.property(), property.value());
      } else if (change instanceof TableChange.RemoveProperty property) {
        removed.add(property.property());
      } else {
        throw refused("only TBLPROPERTIES of a topic can be altered", change.getClass().getSimpleName());
      }
    }
    change(request, table);
    return loadTable(table);
  }

  /**
   * {@code DROP TABLE}, and what is done after a {@code CREATE TABLE … AS} that failed: only a topic without records is
   * deleted.
   */
  @Override
  public boolean dropTable(Identifier table) {
    return isDropped(table, false);
  }

  @Override
  public boolean purgeTable(Identifier table) {
    return isDropped(table, true);
  }

  private boolean isDropped(Identifier table, boolean withRecords) {
    ObjectNode request = request("drop_topic", table).put("with_records", withRecords);
    return table.namespace().length == 0 && change(request, table).asBoolean();
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw refused("a topic keeps its name", "RENAME");
  }

  static RuntimeException refused(String rule, String found) {
    return new SparklogException("INVALID_REQUEST: " + rule + "; found " + found, null).inDriver("plan");
  }

  private ObjectNode request(String kind, Identifier table) {
    return Planner.request(kind, options).put("topic", table.name());
  }

  private static JsonNode ask(ObjectNode request) {
    try {
      return Planner.ofDriver().ask(request);
    } catch (SparklogException error) {
      throw error.inDriver("plan");
    }
  }

  /** The answer to a request that changes a topic. */
  private JsonNode change(ObjectNode request, Identifier table) {
    try {
      return Planner.ofDriver().askOnce(request);
    } catch (Planner.Unanswered error) {
      if (!error.isSent) {
        throw error.inDriver("plan");
      }
      String look = "the statement may have changed topic " + table.name() + ": look with SHOW TBLPROPERTIES " + name + "."
          + table.name() + " before it is run again";
      throw error.outcomeUnknown(look).inDriver("plan");
    } catch (SparklogException error) {
      throw error.inDriver("plan");
    }
  }
}
