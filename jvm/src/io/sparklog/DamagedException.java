package io.sparklog;

/** Bytes that are not what the plan says. Never shown: another holder is asked, and in the end Python, which says what is wrong. */
final class DamagedException extends Exception {
  DamagedException(String message) {
    super(message);
  }
}
