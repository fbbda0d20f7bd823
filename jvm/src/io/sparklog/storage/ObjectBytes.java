package io.sparklog.storage;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.zip.CRC32C;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.SparkEnv;
import scala.Tuple2;

/** The bytes of one object: of a local file, or by Hadoop's file system of its address. One thread at a time. */
public abstract class ObjectBytes implements Closeable {
  static final String LOCAL = "file://";
  private static final String HDFS = "hdfs";
  private static Configuration configuration; // of this JVM: it takes a while to make
  private static final String HADOOP = "spark.hadoop."; // the prefix of Hadoop's settings in Spark's

  /** Read `length` bytes from `position` on into the beginning of `to`. */
  public abstract void read(long position, byte[] to, int length) throws IOException;

  /** True if the next bytes should be fetched while those before them are used. */
  public abstract boolean isSlow();

  @Override
  public abstract void close();

  public static ObjectBytes open(String address) throws IOException {
    URI uri = URI.create(address); // the chain has it quoted
    if (address.startsWith(LOCAL)) {
      return new LocalFile(FileChannel.open(Path.of(uri), StandardOpenOption.READ));
    }
    return new HadoopFile(FileSystem.get(uri, configuration()).open(new org.apache.hadoop.fs.Path(uri)));
  }

  /** True if this Spark has a file system for the address of a store. */
  public static boolean isReadable(String address) {
    if (address.startsWith(LOCAL)) {
      return true;
    }
    try {
      FileSystem.getFileSystemClass(URI.create(address).getScheme(), configuration());
      return true;
    } catch (IOException | IllegalArgumentException error) {
      return false;
    }
  }

  /** The hosts with the first of these bytes on their disks, from HDFS; none on other stores, or if it can't say. */
  public static String[] hosts(String address, long position, long length) {
    URI uri = URI.create(address);
    if (!HDFS.equals(uri.getScheme())) {
      return new String[0];
    }
    try {
      FileSystem files = FileSystem.get(uri, configuration());
      BlockLocation[] blocks = files.getFileBlockLocations(new org.apache.hadoop.fs.Path(uri), position, length);
      return blocks == null || blocks.length == 0 ? new String[0] : blocks[0].getHosts();
    } catch (IOException error) {
      return new String[0]; // it is a hint; the read itself asks all holders
    }
  }

  /** The configuration of Hadoop, with the settings of this Spark. */
  static synchronized Configuration configuration() {
    if (configuration == null) {
      configuration = configured();
    }
    return configuration;
  }

  private static Configuration configured() {
    Configuration configuration = new Configuration();
    SparkEnv spark = SparkEnv.get();
    if (spark != null) {
      for (Tuple2<String, String> setting : spark.conf().getAll()) {
        if (setting._1().startsWith(HADOOP)) {
          configuration.set(setting._1().substring(HADOOP.length()), setting._2());
        }
      }
    }
    return configuration;
  }

  /** The CRC32C of bytes [start, start + length). */
  public static int crc32c(byte[] bytes, int start, int length) {
    CRC32C crc = new CRC32C();
    crc.update(bytes, start, length);
    return (int) crc.getValue();
  }

  private static final class LocalFile extends ObjectBytes {
    private final FileChannel file;

    LocalFile(FileChannel file) {
      this.file = file;
    }

    @Override
    public void read(long position, byte[] to, int length) throws IOException {
      ByteBuffer room = ByteBuffer.wrap(to, 0, length);
      while (room.hasRemaining()) {
        if (file.read(room, position + room.position()) < 0) {
          throw new EOFException("the file ends at byte " + (position + room.position()));
        }
      }
    }

    @Override
    public boolean isSlow() {
      return false;
    }

    @Override
    public void close() {
      try {
        file.close();
      } catch (IOException error) {
        // It was only read.
      }
    }
  }

  private static final class HadoopFile extends ObjectBytes {
    private final FSDataInputStream file;

    HadoopFile(FSDataInputStream file) {
      this.file = file;
    }

    @Override
    public void read(long position, byte[] to, int length) throws IOException {
      file.readFully(position, to, 0, length);
    }

    @Override
    public boolean isSlow() {
      return true;
    }

    @Override
    public void close() {
      try {
        file.close();
      } catch (IOException error) {
        // It was only read.
      }
    }
  }
}
