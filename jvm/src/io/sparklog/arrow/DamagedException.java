package io.sparklog.arrow;

/** Bytes differ from the plan. Never shown: another holder is asked, and in the end Python, which words the error. */
public final class DamagedException extends Exception {
  public DamagedException(String message) {
    super(message);
  }
}
