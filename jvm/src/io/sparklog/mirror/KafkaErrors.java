package io.sparklog.mirror;

import io.sparklog.planner.SparklogException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.protocol.Errors;

/** Errors of Kafka's clients, with the code of Kafka's protocol. */
public final class KafkaErrors {
  private KafkaErrors() {}

  /** The error as text: "Kafka's CODE: reason". Python finds the code in it. */
  public static String text(Throwable error) {
    Throwable reason = error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
    String code = Errors.forException(reason).name();
    if (code.equals(Errors.UNKNOWN_SERVER_ERROR.name())) { // or one of the client's own, such as OffsetOutOfRange
      String name = reason.getClass().getSimpleName().replaceFirst("Exception$", "");
      code = name.replaceAll("(?<=[a-z])(?=[A-Z])", "_").toUpperCase(java.util.Locale.ROOT);
    }
    StringBuilder text = new StringBuilder("Kafka's ").append(code).append(": ").append(reason.getMessage());
    for (Throwable cause = reason.getCause(); cause != null; cause = cause.getCause()) {
      text.append(": ").append(cause.getMessage());
    }
    return text.toString().replaceAll("\\s+", " ");
  }

  static SparklogException of(Throwable error) {
    return new SparklogException(text(error), error);
  }
}
