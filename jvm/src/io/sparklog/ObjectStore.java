package io.sparklog;

import java.io.IOException;

/** A store, for writers. */
interface ObjectStore {
  /** The store at an address. */
  static ObjectStore at(String address) {
    return new LocalFolder(address);
  }

  /** Begin to write an object. */
  ObjectUpload begin(String key) throws IOException;

  /** Check that the store has these objects, and beside them the INCARNATION that is registered. */
  void check(String incarnation, String... keys) throws IOException;
}
