package io.sparklog.write.task;

import com.fasterxml.jackson.databind.node.ArrayNode;
import io.sparklog.arrow.Encoder;
import io.sparklog.arrow.IpcFile;
import io.sparklog.planner.Planner;
import io.sparklog.storage.ObjectBytes;
import io.sparklog.storage.ObjectStore;
import io.sparklog.storage.ObjectUpload;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A data object that is being written: batches go in, then object and index become durable on its stores. A single store
 * gets the batches at once. Several get them together at the end, so that the bytes are there for each of them.
 */
final class OpenObject implements IpcFile.Sink {
  private static final int APPEND = 0; // ObjectKind of core/types.py

  /** The bytes of an object. `parts` is null once the task waits no more: a store that hangs must not keep them. */
  private static final class Body {
    volatile List<byte[]> parts = new ArrayList<>();
  }

  private final TaskObjects task;
  private final WritePlan.Topic topic;
  private final List<WritePlan.Store> stores; // those that the task has not given up
  private final String uploadId = ObjectUpload.newId();
  private final String name; // the key without its extension
  private final ObjectUpload upload; // null if several stores were intended
  private final Body body = new Body(); // for several
  private final IpcFile file;
  private final WrittenIndex index;

  OpenObject(TaskObjects task, WritePlan.Topic topic, List<WritePlan.Store> intended) throws IOException {
    this.task = task;
    this.topic = topic;
    index = new WrittenIndex(topic.id());
    stores = task.lanes.left(intended);
    if (stores.isEmpty()) {
      throw new StoreLanes.NotTaken(Map.of());
    }
    long n0 = task.plan.n0();
    name = String.format("append/%s/%020d-%s", uploadId.substring(0, 2), n0, uploadId); // storage/keys.py
    upload = intended.size() == 1 ? ObjectStore.at(stores.get(0).url()).begin(dataKey(name)) : null;
    try {
      file = new IpcFile(this, task.plan.object());
    } catch (IOException error) {
      abort();
      throw error;
    }
  }

  void append(PendingRows.Encoded batch) throws IOException {
    index.add(batch, file.append(batch.message()));
  }

  @Override
  public void write(byte[] bytes, int length) throws IOException {
    if (upload == null) {
      body.parts.add(bytes);
    } else {
      upload.write(bytes, length);
    }
  }

  /** Make object and index durable, and add them to what the task has written. No batch may follow. */
  void publish(Encoder encoder) throws IOException {
    file.finish();
    byte[] indexBody = index.encode(task.plan.index(), encoder);
    List<WritePlan.Store> holders = stores;
    if (upload == null) {
      holders = publishOnSeveral(indexBody);
    } else {
      publishWithIndex(stores.get(0), upload, name, indexBody);
    }
    ArrayNode named = Planner.JSON.createArrayNode(); // Python's NewObject
    named.add(APPEND).add(task.plan.n0()).add(uploadId).add(topic.id()).add(file.size()).add(file.crc32c());
    named.add(indexBody.length).add(ObjectBytes.crc32c(indexBody, 0, indexBody.length) & 0xFFFFFFFFL);
    ArrayNode held = named.addArray();
    holders.forEach(holder -> held.addArray().add(holder.id()).add(holder.registration()));
    TaskWritten written = task.written;
    written.add(named.addNull().addNull().addNull(), index.slices(written.objects()));
  }

  void abort() {
    if (upload != null) {
      upload.abort();
    }
  }

  private List<WritePlan.Store> publishOnSeveral(byte[] indexBody) throws IOException {
    // The threads of the stores get nothing that leads to the task.
    Body bytes = body;
    String key = name;
    try {
      return task.lanes.perform(stores, store -> publishOnOne(store, key, bytes, indexBody));
    } finally {
      bytes.parts = null;
    }
  }

  private static void publishOnOne(WritePlan.Store store, String name, Body body, byte[] index) throws IOException {
    ObjectUpload own = ObjectStore.at(store.url()).begin(dataKey(name));
    try {
      for (int next = 0; ; next++) {
        List<byte[]> parts = body.parts;
        if (parts == null) {
          throw new IOException("the store was given up");
        }
        if (next == parts.size()) {
          break;
        }
        own.write(parts.get(next), parts.get(next).length);
      }
      publishWithIndex(store, own, name, index);
    } finally {
      own.abort();
    }
  }

  private static void publishWithIndex(WritePlan.Store store, ObjectUpload object, String name, byte[] indexBody)
      throws IOException {
    object.publish();
    ObjectStore to = ObjectStore.at(store.url());
    ObjectUpload beside = to.begin(indexKey(name));
    try {
      beside.write(indexBody, indexBody.length);
      beside.publish();
    } finally {
      beside.abort();
    }
    to.check(store.incarnation(), dataKey(name), indexKey(name));
  }

  private static String dataKey(String name) {
    return name + ".arrow";
  }

  private static String indexKey(String name) {
    return name + ".index";
  }
}
