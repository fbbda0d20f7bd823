package io.sparklog.storage;

import com.fasterxml.jackson.core.JsonProcessingException;
import io.sparklog.planner.Planner;
import java.io.IOException;
import java.io.InputStream;

/** A store, for writers. */
public interface ObjectStore {
  String TEMPORARIES = ".tmp"; // the folder of unpublished uploads
  String INCARNATION = "INCARNATION";

  /** The store at an address, which the planner has found to be one that Java writes to. */
  static ObjectStore at(String address) throws IOException {
    return address.startsWith(ObjectBytes.LOCAL) ? new LocalFolder(address) : new HadoopFolder(address);
  }

  /** Begin to write an object. */
  ObjectUpload begin(String key) throws IOException;

  /**
   * Check that the store has the registered INCARNATION, and these objects beside it. Throws AnotherIncarnation, and the
   * store's errors.
   */
  default void check(String registered, String... keys) throws IOException {
    String found = incarnationBeside(registered, keys);
    if (found == null) {
      found = incarnationBeside(registered, keys); // a first "not found" may be wrong
    }
    if (!registered.equals(found)) {
      throw new AnotherIncarnation(found);
    }
  }

  /**
   * The INCARNATION of the store; null if there is none. If it is the registered one, throws unless the objects are
   * beside it.
   */
  String incarnationBeside(String registered, String... keys) throws IOException;

  /** The store was wiped or swapped, or is not mounted. */
  final class AnotherIncarnation extends IOException {
    public final String found; // null: none

    AnotherIncarnation(String found) {
      super("another " + INCARNATION);
      this.found = found;
    }
  }

  /** The INCARNATION that a mark names; empty if it is no mark. */
  static String incarnationIn(InputStream mark) throws IOException {
    try {
      return Planner.JSON.readTree(mark).path("incarnation").asText();
    } catch (JsonProcessingException error) {
      return "";
    }
  }
}
