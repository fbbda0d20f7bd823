package io.sparklog;

import java.io.IOException;

/** A store, for writers. */
interface ObjectStore {
  String TEMPORARIES = ".tmp"; // the folder of unpublished uploads
  String INCARNATION = "INCARNATION";

  /** The store at an address, which the planner has found to be one that Java writes to. */
  static ObjectStore at(String address) throws IOException {
    return address.startsWith(ObjectBytes.LOCAL) ? new LocalFolder(address) : new HadoopFolder(address);
  }

  /** Begin to write an object. */
  ObjectUpload begin(String key) throws IOException;

  /** Check that the store has these objects, and beside them the INCARNATION that is registered. */
  void check(String incarnation, String... keys) throws IOException;
}
