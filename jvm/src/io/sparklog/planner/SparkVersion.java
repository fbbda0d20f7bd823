package io.sparklog.planner;

import org.apache.spark.QueryContext;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.connector.catalog.TableProvider;
import scala.Option;

/**
 * The Spark of this JVM: the only class that handles differences between versions, as spark_versions.py in Python. 3.5 has
 * no data sources in Python, and no error condition for theirs: there, Java does all, or refuses.
 */
public final class SparkVersion {
  private static final String CONDITION = "PYTHON_DATA_SOURCE_ERROR";
  private static final Class<?> PYTHON_SOURCE = pythonSource(); // not public; null in 3.5

  private SparkVersion() {}

  private static Class<?> pythonSource() {
    try {
      return Class.forName("org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2");
    } catch (ClassNotFoundException error) {
      return null;
    }
  }

  /** True if a data source in Python can do what Java can't. */
  public static boolean hasPythonSources() {
    return PYTHON_SOURCE != null;
  }

  /** The Python data source that is registered under this name. */
  public static TableProvider pythonSource(String name) {
    try {
      Object source = PYTHON_SOURCE.getConstructor().newInstance();
      PYTHON_SOURCE.getMethod("setShortName", String.class).invoke(source, name);
      return (TableProvider) source;
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The error that Spark raises if the Python data source fails in the driver. */
  static AnalysisException inDriver(String action, String message) {
    if (hasPythonSources()) {
      return new AnalysisException(CONDITION, parameters(action, message));
    }
    Option<Object> nowhere = Option.empty();
    return new AnalysisException(
        message, nowhere, nowhere, Option.empty(), Option.empty(), parameters(action, message), new QueryContext[0]);
  }

  /** The error of a task: one that PySpark knows, so that its users need not look for it in Py4J's. */
  static RuntimeException inTask(String action, SparklogException error) {
    return hasPythonSources()
        ? new SparkRuntimeException(CONDITION, parameters(action, error.getMessage()), error, new QueryContext[0], "")
        : error;
  }

  private static scala.collection.immutable.Map<String, String> parameters(String action, String message) {
    // Spark writes its SQLSTATE on a line of its own.
    return new scala.collection.immutable.Map.Map3<>("action", action, "type", "sparklog", "msg", message + "\n");
  }
}
