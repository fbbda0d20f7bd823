package io.sparklog;

/** Bytes differ from the plan. Never shown: another holder is asked, and in the end Python, which words the error. */
final class DamagedException extends Exception {
  DamagedException(String message) {
    super(message);
  }
}
