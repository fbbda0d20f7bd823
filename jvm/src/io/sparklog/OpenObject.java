package io.sparklog;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * A data object that is being written: batches go in, then object and index become durable on its stores. A single store
 * gets the batches at once. Several get them together at the end, so that the bytes are there for each of them.
 */
final class OpenObject implements IpcFile.Sink {
  private static final int APPEND = 0; // ObjectKind of core/types.py

  private final TaskObjects task;
  private final WritePlan.Topic topic;
  private final List<WritePlan.Store> stores; // those that the task has not given up
  private final String uploadId = ObjectUpload.newId();
  private final String name; // the key without its extension
  private final ObjectUpload upload; // to a single store; null if there are several
  private final List<byte[]> body = new ArrayList<>(); // for several stores
  private final IpcFile file;
  private final WrittenIndex index = new WrittenIndex();

  OpenObject(TaskObjects task, WritePlan.Topic topic, List<WritePlan.Store> intended) throws IOException {
    this.task = task;
    this.topic = topic;
    stores = task.lanes.left(intended);
    long n0 = task.plan.n0();
    name = String.format("append/%s/%020d-%s", uploadId.substring(0, 2), n0, uploadId); // storage/keys.py
    upload = stores.size() == 1 ? ObjectStore.at(stores.get(0).url()).begin(dataKey()) : null;
    try {
      file = new IpcFile(this, task.plan.object());
    } catch (IOException error) {
      abort();
      throw error;
    }
  }

  void append(EncodedBatch batch) throws IOException {
    index.add(batch, file.append(batch.message()));
  }

  @Override
  public void write(byte[] bytes, int length) throws IOException {
    if (upload == null) {
      body.add(bytes);
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
      holders = task.lanes.perform(stores, store -> publish(store, indexBody));
    } else {
      publish(stores.get(0), upload, indexBody);
    }
    ArrayNode named = Planner.JSON.createArrayNode(); // Python's NewObject
    named.add(APPEND).add(task.plan.n0()).add(uploadId).add(topic.id()).add(file.size()).add(file.crc32c());
    named.add(indexBody.length).add(ObjectIndex.crc32c(indexBody, 0, indexBody.length) & 0xFFFFFFFFL);
    ArrayNode held = named.addArray();
    holders.forEach(holder -> held.addArray().add(holder.id()).add(holder.registration()));
    TaskWritten written = task.written;
    written.add(named.addNull().addNull().addNull(), index.slices(written.objects(), topic.id()));
  }

  void abort() {
    if (upload != null) {
      upload.abort();
    }
  }

  private void publish(WritePlan.Store store, byte[] indexBody) throws IOException {
    ObjectUpload own = ObjectStore.at(store.url()).begin(dataKey());
    try {
      for (byte[] part : body) {
        own.write(part, part.length);
      }
      publish(store, own, indexBody);
    } finally {
      own.abort();
    }
  }

  private void publish(WritePlan.Store store, ObjectUpload object, byte[] indexBody) throws IOException {
    object.publish();
    ObjectStore to = ObjectStore.at(store.url());
    ObjectUpload beside = to.begin(indexKey());
    try {
      beside.write(indexBody, indexBody.length);
      beside.publish();
    } finally {
      beside.abort();
    }
    to.check(store.incarnation(), dataKey(), indexKey());
  }

  private String dataKey() {
    return name + ".arrow";
  }

  private String indexKey() {
    return name + ".index";
  }
}
