package io.sparklog.planner;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;

/** An error of sparklog. Its message is that of the Python data source: class, code and text. */
public class SparklogException extends RuntimeException {
  public SparklogException(String message, Throwable cause) {
    super(message, cause);
  }

  /** Throws, in place of returning it, the error that Spark raises if the Python data source fails in the driver. */
  public RuntimeException inDriver(String action) {
    throw unchecked(SparkVersion.inDriver(action, getMessage()));
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
    return SparkVersion.inTask(action, this);
  }

  @SuppressWarnings("unchecked") // the compiler takes E for a RuntimeException: Spark's own errors are checked ones
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
