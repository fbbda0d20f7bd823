package io.sparklog;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** A topic that was created for the rows of a query, and goes if the query or their write fails. */
record StagedTopic(TopicTable created, Runnable drop) implements StagedTable, SupportsWrite {
  @Override
  public String name() {
    return created.name();
  }

  @SuppressWarnings("deprecation") // Spark 4.0 has no other way
  @Override
  public StructType schema() {
    return created.schema();
  }

  @Override
  public Map<String, String> properties() {
    return created.properties();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return created.capabilities();
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return created.newWriteBuilder(info);
  }

  @Override
  public void commitStagedChanges() {
    // The topic is there, and its rows are committed.
  }

  @Override
  public void abortStagedChanges() {
    drop.run();
  }
}
