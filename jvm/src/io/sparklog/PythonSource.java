package io.sparklog;

import org.apache.spark.sql.connector.catalog.TableProvider;

/** The data source that Spark makes of one written in Python. Its class is not public, so it is made by its name. */
final class PythonSource {
  private static final String CLASS = "org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2";

  private PythonSource() {}

  /** The Python data source that is registered under this name. */
  static TableProvider create(String name) {
    try {
      Object source = Class.forName(CLASS).getConstructor().newInstance();
      source.getClass().getMethod("setShortName", String.class).invoke(source, name);
      return (TableProvider) source;
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("wanted a Spark with data sources in Python (4.0 or newer): no " + CLASS, error);
    }
  }
}
