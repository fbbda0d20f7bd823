package io.sparklog.read.task;

import io.sparklog.arrow.DamagedException;
import io.sparklog.storage.ObjectBytes;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The most recently used indexes of this JVM, as bytes: each slice checks and decodes its own part. Objects are
 * immutable, so none goes stale.
 */
final class IndexCache {
  private static final int BYTES = 16 << 20;
  private static final Map<String, byte[]> BODIES = new LinkedHashMap<>(16, 0.75f, true);
  private static long held;

  private IndexCache() {}

  /** The part of the index at this address that belongs to a slice. */
  static ObjectIndex get(String address, ReadTask.Slice slice, ReadMetrics metrics) throws IOException, DamagedException {
    byte[] body = cached(address);
    if (body != null) {
      return new ObjectIndex(body, slice);
    }
    try (ObjectBytes object = ObjectBytes.open(address)) {
      body = new byte[slice.indexSizeBytes()];
      object.read(0, body, body.length);
      metrics.requests++;
      metrics.bytes += body.length;
    }
    ObjectIndex index = new ObjectIndex(body, slice);
    keep(address, body);
    return index;
  }

  private static synchronized byte[] cached(String address) {
    return BODIES.get(address);
  }

  private static synchronized void keep(String address, byte[] body) {
    if (BODIES.put(address, body) == null) {
      held += body.length;
    }
    var eldest = BODIES.entrySet().iterator();
    while (held > BYTES && BODIES.size() > 1) {
      held -= eldest.next().getValue().length;
      eldest.remove();
    }
  }
}
