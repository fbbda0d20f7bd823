package io.sparklog.planner;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.sql.AnalysisException;
import scala.jdk.javaapi.CollectionConverters;

/** An error of sparklog. Its message is that of the Python data source: class, code and text. */
public class SparklogException extends RuntimeException {
  private static final String CONDITION = "PYTHON_DATA_SOURCE_ERROR";

  public SparklogException(String message, Throwable cause) {
    super(message, cause);
  }

  /** Throws, in place of returning it, the error that Spark raises if the Python data source fails in the driver. */
  public RuntimeException inDriver(String action) {
    throw unchecked(new AnalysisException(CONDITION, parameters(action)));
  }

  /**
   * As {@link #inDriver}, in the thread of a stream. If that was interrupted, throws what tells Spark so: a query that
   * is stopped has not failed.
   */
  public RuntimeException inStream(String action) {
    if (Thread.currentThread().isInterrupted()) {
      InterruptedIOException interrupted = new InterruptedIOException(getMessage());
      interrupted.initCause(this);
      throw new UncheckedIOException(interrupted);
    }
    throw inDriver(action);
  }

  /** The error of a task: one that PySpark knows, so that its users need not look for it in Py4J's. */
  public RuntimeException inTask(String action) {
    return new SparkRuntimeException(CONDITION, parameters(action), this, new QueryContext[0], "");
  }

  private scala.collection.immutable.Map<String, String> parameters(String action) {
    Map<String, String> parameters = new HashMap<>();
    parameters.put("action", action);
    parameters.put("type", "sparklog");
    parameters.put("msg", getMessage() + "\n"); // Spark writes its SQLSTATE on a line of its own
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(parameters));
  }

  @SuppressWarnings("unchecked") // the compiler takes E for a RuntimeException: Spark's own errors are checked ones
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
