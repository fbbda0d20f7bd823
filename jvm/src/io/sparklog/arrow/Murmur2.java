package io.sparklog.arrow;

/** Kafka's hash of keys, by which the default partitioner chooses: core/producing/murmur2.py. */
public final class Murmur2 {
  private static final int SEED = 0x9747B28C;
  private static final int M = 0x5BD1E995;
  private static final int R = 24;

  private Murmur2() {}

  /** The partition of a key. */
  public static int partition(byte[] key, int partitions) {
    return (hash(key) & Integer.MAX_VALUE) % partitions;
  }

  private static int hash(byte[] key) {
    int hash = SEED ^ key.length;
    int words = key.length & ~3;
    for (int at = 0; at < words; at += 4) {
      int word = LittleEndian.int32(key, at) * M;
      word = (word ^ word >>> R) * M;
      hash = hash * M ^ word;
    }
    for (int at = key.length - 1; at >= words; at--) {
      hash ^= (key[at] & 0xFF) << 8 * (at - words);
    }
    if (words < key.length) {
      hash *= M;
    }
    hash = (hash ^ hash >>> 13) * M;
    return hash ^ hash >>> 15;
  }
}
