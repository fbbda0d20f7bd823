package io.sparklog.arrow;

import net.jpountz.xxhash.XXHashFactory;

/**
 * Decompresses LZ4 frames (LZ4 Frame Format 1.6.x) into an array. Spark's lz4-java refuses frames with the options that
 * pyarrow sets, and arrow-java's decoder is many times slower. It refuses whatever the LZ4 library refuses, so Python
 * and Java read the same frames.
 */
final class Lz4Frame {
  private static final int MAGIC = 0x184D2204;
  private static final int MIN_MATCH = 4;
  private static final int SHORT = 16; // bytes: up to here it is faster to copy too many, which later bytes replace

  private Lz4Frame() {}

  /** Decompress bytes [start, start + length) into `to`, at most `most` bytes. Returns their number. */
  static int decompress(byte[] from, int start, int length, byte[] to, int most) throws DamagedException {
    int end = start + length;
    DamagedException.unless(length >= 7 && LittleEndian.int32(from, start) == MAGIC, "no LZ4 frame");
    int flags = from[start + 4];
    int sizes = from[start + 5];
    boolean isIndependent = (flags & 0x20) != 0;
    boolean hasBlockChecksums = (flags & 0x10) != 0;
    boolean hasContentSize = (flags & 0x08) != 0;
    boolean hasChecksum = (flags & 0x04) != 0;
    DamagedException.unless((flags & 0xC3) == 0x40 && (sizes & 0x8F) == 0 && sizes >= 0x40, "LZ4 flags " + flags);
    int mostInBlock = 1 << (8 + 2 * (sizes >> 4));
    int at = start + 6 + (hasContentSize ? 8 : 0); // magic, flags, block size, [content size]
    DamagedException.unless(at < end && from[at] == (byte) (hash(from, start + 4, at) >> 8), "an LZ4 header's checksum");
    DamagedException.unless(!hasContentSize || LittleEndian.int64(from, start + 6) == most, "another LZ4 content size");
    at++;
    int done = 0;
    while (true) {
      DamagedException.unless(at + 4 <= end, "an LZ4 frame without an end");
      int size = LittleEndian.int32(from, at);
      at += 4;
      if (size == 0) {
        break;
      }
      boolean isStored = size < 0;
      size &= 0x7FFFFFFF;
      DamagedException.unless(size <= end - at && size <= mostInBlock, "an LZ4 block of " + size + " bytes");
      int mostHere = (int) Math.min(most, (long) done + mostInBlock);
      if (isStored) {
        DamagedException.unless(size <= mostHere - done, "LZ4 blocks of more than " + most + " bytes");
        System.arraycopy(from, at, to, done, size);
        done += size;
      } else {
        done = block(from, at, at + size, to, isIndependent ? done : 0, done, mostHere);
      }
      at += size;
      if (hasBlockChecksums) {
        checkHash(from, at, end, hash(from, at - size, at));
        at += 4;
      }
    }
    if (hasChecksum) {
      checkHash(from, at, end, hash(to, 0, done));
      at += 4;
    }
    DamagedException.unless(at == end, "bytes after an LZ4 frame");
    return done;
  }

  private static int hash(byte[] bytes, int start, int end) {
    return XXHashFactory.fastestJavaInstance().hash32().hash(bytes, start, end - start, 0);
  }

  private static void checkHash(byte[] from, int at, int end, int wanted) throws DamagedException {
    DamagedException.unless(at + 4 <= end && LittleEndian.int32(from, at) == wanted, "an LZ4 checksum");
  }

  /**
   * Decompress one block to position `done` on. Matches may refer to bytes from `first` on. Returns the position after
   * the block.
   */
  private static int block(byte[] from, int at, int end, byte[] to, int first, int done, int most)
      throws DamagedException {
    while (at < end) {
      int token = from[at++] & 0xFF;
      int literals = token >>> 4;
      if (literals == 15) {
        int more;
        do {
          more = from[at++] & 0xFF;
          literals += more;
        } while (more == 255);
      }
      if (literals < 0 || literals > end - at || literals > most - done) {
        throw new DamagedException("LZ4 literals: " + literals);
      }
      if (literals <= SHORT && at <= from.length - SHORT && done <= to.length - SHORT) {
        copy8(from, at, to, done);
        copy8(from, at + 8, to, done + 8);
      } else {
        System.arraycopy(from, at, to, done, literals);
      }
      at += literals;
      done += literals;
      if (at == end) {
        break; // the last sequence has no match
      }
      int distance = (from[at] & 0xFF) | (from[at + 1] & 0xFF) << 8;
      at += 2;
      int match = (token & 15) + MIN_MATCH;
      if ((token & 15) == 15) {
        int more;
        do {
          more = from[at++] & 0xFF;
          match += more;
        } while (more == 255);
      }
      if (distance == 0 || distance > done - first || match <= 0 || match > most - done) {
        throw new DamagedException("LZ4 match: " + distance);
      }
      repeat(to, done, distance, match);
      done += match;
    }
    DamagedException.unless(at == end, "an LZ4 block that ends early");
    return done;
  }

  /** Write `match` bytes to position `done` on: those that begin `distance` before it, and may overlap with it. */
  private static void repeat(byte[] to, int done, int distance, int match) {
    if (distance >= match && match > 4 * SHORT) {
      System.arraycopy(to, done - distance, to, done, match);
      return;
    }
    int i = 0;
    int period = distance;
    if (distance < 8) {
      period = distance * ((7 + distance) / distance); // after so many bytes, steps of 8 bytes read only earlier ones
      for (int end = Math.min(period, match); i < end; i++) {
        to[done + i] = to[done + i - distance];
      }
    }
    for (int end = Math.min(match, to.length - 7 - done); i < end; i += 8) {
      copy8(to, done + i - period, to, done + i);
    }
    for (; i < match; i++) {
      to[done + i] = to[done + i - distance];
    }
  }

  private static void copy8(byte[] from, int at, byte[] to, int done) {
    LittleEndian.set(to, done, LittleEndian.int64(from, at));
  }
}
