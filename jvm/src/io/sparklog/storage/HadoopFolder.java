package io.sparklog.storage;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * A store in a folder of HDFS, for writers. As storage/hdfs/ does it: a temporary file, each block of which the data
 * nodes sync to their disks, is closed and renamed to its key if that is free.
 */
final class HadoopFolder implements ObjectStore {
  private static final Map<String, FileContext> CLIENTS = new HashMap<>(); // by name node: each is a client that stays

  private final Path root;
  private final FileContext files;

  HadoopFolder(String address) throws IOException {
    root = new Path(URI.create(address)); // the chain has it quoted
    files = client(root.toUri());
  }

  private static FileContext client(URI address) throws IOException {
    synchronized (CLIENTS) {
      FileContext client = CLIENTS.get(address.getAuthority());
      if (client == null) {
        client = FileContext.getFileContext(address, ObjectBytes.configuration());
        CLIENTS.put(address.getAuthority(), client);
      }
      return client;
    }
  }

  @Override
  public ObjectUpload begin(String key) throws IOException {
    return new Upload(new Path(root, key));
  }

  @Override
  public String incarnationBeside(String registered, String... keys) throws IOException {
    String found;
    try (InputStream mark = files.open(new Path(root, INCARNATION))) {
      found = ObjectStore.incarnationIn(mark);
    } catch (FileNotFoundException error) {
      return null;
    }
    if (registered.equals(found)) {
      for (String key : keys) {
        files.getFileStatus(new Path(root, key));
      }
    }
    return found;
  }

  private final class Upload implements ObjectUpload {
    private final Path path;
    private final Path temporary = new Path(new Path(root, TEMPORARIES), ObjectUpload.newId());
    private final FSDataOutputStream file;
    private boolean isPublished;

    Upload(Path path) throws IOException {
      this.path = path;
      EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.CREATE, CreateFlag.SYNC_BLOCK);
      file = files.create(temporary, flags, Options.CreateOpts.createParent());
    }

    @Override
    public void write(byte[] bytes, int length) throws IOException {
      file.write(bytes, 0, length);
    }

    @Override
    public void publish() throws IOException {
      file.close();
      try {
        files.rename(temporary, path, Options.Rename.NONE);
      } catch (FileNotFoundException error) {
        files.mkdir(path.getParent(), FsPermission.getDirDefault(), true);
        files.rename(temporary, path, Options.Rename.NONE);
      }
      isPublished = true;
    }

    @Override
    public void abort() {
      if (isPublished) {
        return;
      }
      try {
        file.close();
      } catch (IOException error) {
        // It is deleted anyway.
      }
      try {
        files.delete(temporary, false);
      } catch (IOException error) {
        // The vacuum job removes it.
      }
    }
  }
}
