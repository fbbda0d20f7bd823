package io.sparklog;

import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/** A catalog that gets the columns of a new table. Spark 3.5 demands the older methods, too, which get a schema. */
@SuppressWarnings("deprecation")
abstract class ColumnCatalog implements StagingTableCatalog {
  @Override
  public Table createTable(Identifier table, StructType schema, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return createTable(table, columns(schema), partitioning, properties);
  }

  @Override
  public StagedTable stageCreate(
      Identifier table, StructType schema, Transform[] partitioning, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return stageCreate(table, columns(schema), partitioning, properties);
  }

  @Override
  public StagedTable stageReplace(
      Identifier table, StructType schema, Transform[] partitioning, Map<String, String> properties)
      throws NoSuchNamespaceException, NoSuchTableException {
    return stageReplace(table, columns(schema), partitioning, properties);
  }

  @Override
  public StagedTable stageCreateOrReplace(
      Identifier table, StructType schema, Transform[] partitioning, Map<String, String> properties)
      throws NoSuchNamespaceException {
    return stageCreateOrReplace(table, columns(schema), partitioning, properties);
  }

  private static Column[] columns(StructType schema) {
    return Arrays.stream(schema.fields())
        .map(field -> Column.create(field.name(), field.dataType(), field.nullable()))
        .toArray(Column[]::new);
  }
}
