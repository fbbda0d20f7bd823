package io.sparklog.storage;

import java.io.IOException;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SecureDirectoryStream;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A store in a folder, for writers. As storage/local/ does it: a temporary file is written and synced, a hard link
 * gives it its key if that is free, and the folder is synced.
 */
final class LocalFolder implements ObjectStore {
  private static final Set<Path> DURABLE = ConcurrentHashMap.newKeySet(); // folders whose own names are durable

  private final Path root;

  LocalFolder(String address) {
    root = Path.of(URI.create(address)); // the chain has it quoted
  }

  @Override
  public ObjectUpload begin(String key) throws IOException {
    return new Upload(root.resolve(key));
  }

  @Override
  public String incarnationBeside(String registered, String... keys) throws IOException {
    try (DirectoryStream<Path> opened = Files.newDirectoryStream(root)) {
      // From one open folder: a path may lead elsewhere at each use, if disks are mounted.
      SecureDirectoryStream<Path> folder = (SecureDirectoryStream<Path>) opened;
      String found;
      try (var file = folder.newByteChannel(Path.of(INCARNATION), Set.of(StandardOpenOption.READ))) {
        found = ObjectStore.incarnationIn(Channels.newInputStream(file));
      } catch (NoSuchFileException error) {
        return null;
      }
      if (registered.equals(found)) {
        for (String key : keys) {
          folder.getFileAttributeView(Path.of(key), BasicFileAttributeView.class).readAttributes();
        }
      }
      return found;
    }
  }

  private final class Upload implements ObjectUpload {
    private final Path path;
    private final Path temporary;
    private final FileChannel file;

    Upload(Path path) throws IOException {
      this.path = path;
      temporary = root.resolve(TEMPORARIES).resolve(ObjectUpload.newId());
      file = create(temporary);
    }

    @Override
    public void write(byte[] bytes, int length) throws IOException {
      ByteBuffer rest = ByteBuffer.wrap(bytes, 0, length);
      while (rest.hasRemaining()) {
        file.write(rest);
      }
    }

    @Override
    public void publish() throws IOException {
      try {
        file.force(true);
        file.close();
        link();
      } finally {
        abort();
      }
    }

    @Override
    public void abort() {
      try {
        file.close();
        Files.deleteIfExists(temporary);
      } catch (IOException error) {
        // The vacuum job removes it.
      }
    }

    private void link() throws IOException {
      try {
        linkInto(path.getParent());
      } catch (NoSuchFileException error) {
        DURABLE.clear(); // another process removed the folder: make it again, once
        linkInto(path.getParent());
      }
    }

    private void linkInto(Path folder) throws IOException {
      if (!DURABLE.contains(folder)) {
        Files.createDirectories(folder);
        syncNamesDownTo(folder);
      }
      Object identity = identity(folder);
      try (FileChannel opened = FileChannel.open(folder, StandardOpenOption.READ)) {
        Files.createLink(path, temporary);
        opened.force(true);
      }
      if (!identity.equals(identity(folder))) {
        throw new IOException("another folder was there afterwards: a disk was mounted or unmounted meanwhile");
      }
    }
  }

  private static FileChannel create(Path temporary) throws IOException {
    try {
      return FileChannel.open(temporary, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW);
    } catch (NoSuchFileException error) {
      DURABLE.clear(); // the root may be new as well
      Files.createDirectories(temporary.getParent());
      return FileChannel.open(temporary, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW);
    }
  }

  /** Make the names of a folder and of all above it durable: any process may have just created them. */
  private void syncNamesDownTo(Path folder) throws IOException {
    Deque<Path> above = new ArrayDeque<>();
    for (Path at = folder; at.getParent() != null && !DURABLE.contains(at); at = at.getParent()) {
      above.push(at);
    }
    for (Path at : above) {
      try (FileChannel parent = FileChannel.open(at.getParent(), StandardOpenOption.READ)) {
        parent.force(true);
      } catch (AccessDeniedException error) {
        // A process that may not list a folder above the root did not create one in it either.
        if (at.startsWith(root) && !at.equals(root)) {
          throw error;
        }
      }
      DURABLE.add(at);
    }
  }

  private static Object identity(Path folder) throws IOException {
    return Files.readAttributes(folder, BasicFileAttributes.class).fileKey();
  }
}
