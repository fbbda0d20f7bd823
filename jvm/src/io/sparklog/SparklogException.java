package io.sparklog;

/** An error of sparklog. Its message begins with the error's code, as everywhere in sparklog. */
public final class SparklogException extends RuntimeException {
  SparklogException(String message, Throwable cause) {
    super(message, cause);
  }
}
