package org.apache.kafka.common.protocol;

public enum Errors {
  UNKNOWN_SERVER_ERROR;

  public static Errors forException(Throwable error) {
    return null;
  }
}
