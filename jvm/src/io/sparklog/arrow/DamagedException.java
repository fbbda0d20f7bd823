package io.sparklog.arrow;

/** Bytes differ from the plan. Never shown: another holder is asked, and in the end Python, which words the error. */
public final class DamagedException extends Exception {
  public DamagedException(String message) {
    super(message);
  }

  /** Throws unless the bytes are right; `found` says what they are instead. */
  public static void unless(boolean isRight, String found) throws DamagedException {
    if (!isRight) {
      throw new DamagedException(found);
    }
  }
}
