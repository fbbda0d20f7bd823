package io.sparklog;

import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.AbstractFileSystem;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FilterFs;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * HDFS with faults, as {@code spark.hadoop.fs.AbstractFileSystem.hdfs.impl}: calls are counted from {@link #begin} on,
 * and chosen ones throw an IOException. Calls to delete are let through.
 */
public final class FaultyHdfs extends FilterFs {
  private static final String IMPLEMENTATION = "fs.AbstractFileSystem.hdfs.impl";

  private static int calls;
  private static int faults;
  private static int first;
  private static int last;
  private static boolean isDone;

  public FaultyHdfs(URI address, Configuration given) throws IOException, URISyntaxException {
    super(AbstractFileSystem.createFileSystem(address, plain(given)));
  }

  private static Configuration plain(Configuration given) {
    Configuration plain = new Configuration(given);
    plain.set(IMPLEMENTATION, "org.apache.hadoop.fs.Hdfs");
    return plain;
  }

  /** Count from 1 again: calls `first` to `last`, both inclusive, throw, before they do anything or, if `isDone`, after. */
  public static synchronized void begin(int first, int last, boolean isDone) {
    calls = 0;
    faults = 0;
    FaultyHdfs.first = first;
    FaultyHdfs.last = last;
    FaultyHdfs.isDone = isDone;
  }

  /** The calls so far. */
  public static synchronized int calls() {
    return calls;
  }

  /** The calls that have thrown, but for those that would have done so anyway. */
  public static synchronized int faults() {
    return faults;
  }

  private static synchronized IOException fault(String at) {
    faults++;
    return new IOException("a fault " + at);
  }

  private static synchronized boolean isFaulty() {
    calls++;
    return first <= calls && calls <= last;
  }

  /** Does something of HDFS. */
  private interface Call<T> {
    T run() throws IOException;
  }

  private static <T> T call(String what, Call<T> call) throws IOException {
    boolean isFaulty = isFaulty();
    if (isFaulty && !isDone) {
      throw fault("before " + what);
    }
    T result = call.run();
    if (isFaulty) {
      throw fault("after " + what);
    }
    return result;
  }

  @Override
  public FSDataOutputStream createInternal(
      Path path,
      EnumSet<CreateFlag> flags,
      FsPermission permission,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress,
      Options.ChecksumOpt checksum,
      boolean createParent)
      throws IOException {
    return call(
        "create",
        () ->
            new FaultyStream(
                super.createInternal(
                    path, flags, permission, bufferSize, replication, blockSize, progress, checksum, createParent)));
  }

  @Override
  public void renameInternal(Path from, Path to, boolean overwrite) throws IOException {
    call(
        "rename",
        () -> {
          super.renameInternal(from, to, overwrite);
          return null;
        });
  }

  @Override
  public void mkdir(Path folder, FsPermission permission, boolean createParent) throws IOException {
    call(
        "mkdir",
        () -> {
          super.mkdir(folder, permission, createParent);
          return null;
        });
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    return call("getFileStatus", () -> super.getFileStatus(path));
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    return call("open", () -> super.open(path, bufferSize));
  }

  /** A file that is being written. */
  private static final class FaultyStream extends FSDataOutputStream {
    private final FSDataOutputStream to;

    FaultyStream(FSDataOutputStream to) throws IOException {
      super(new Writes(to), null);
      this.to = to;
    }

    @Override
    public void hflush() throws IOException {
      call("hflush", () -> flushed(false));
    }

    @Override
    public void hsync() throws IOException {
      call("hsync", () -> flushed(true));
    }

    @Override
    public void close() throws IOException {
      call(
          "close",
          () -> {
            to.close();
            return null;
          });
    }

    private Void flushed(boolean isSync) throws IOException {
      if (isSync) {
        to.hsync();
      } else {
        to.hflush();
      }
      return null;
    }
  }

  /** The bytes of a file. */
  private static final class Writes extends OutputStream {
    private final OutputStream to;

    Writes(OutputStream to) {
      this.to = to;
    }

    @Override
    public void write(int value) throws IOException {
      write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int start, int length) throws IOException {
      call(
          "write",
          () -> {
            to.write(bytes, start, length);
            return null;
          });
    }
  }
}
