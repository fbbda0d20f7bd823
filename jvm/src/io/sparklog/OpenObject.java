package io.sparklog;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.IOException;

/** A data object that is being written: batches go in, then object and index become durable on their store. */
final class OpenObject {
  private static final int APPEND = 0; // ObjectKind of core/types.py

  private final WritePlan plan;
  private final WritePlan.Topic topic;
  private final WritePlan.Store store;
  private final ObjectStore to;
  private final String uploadId = ObjectUpload.newId();
  private final String name; // the key without its extension
  private final ObjectUpload upload;
  private final IpcFile file;
  private final WrittenIndex index = new WrittenIndex();

  OpenObject(WritePlan plan, WritePlan.Topic topic, WritePlan.Store store) throws IOException {
    this.plan = plan;
    this.topic = topic;
    this.store = store;
    to = ObjectStore.at(store.url());
    name = String.format("append/%s/%020d-%s", uploadId.substring(0, 2), plan.n0(), uploadId); // storage/keys.py
    upload = to.begin(dataKey());
    try {
      file = new IpcFile(upload, plan.object());
    } catch (IOException error) {
      upload.abort();
      throw error;
    }
  }

  void append(EncodedBatch batch) throws IOException {
    index.add(batch, file.append(batch.message()));
  }

  /** Make object and index durable, and add them to what the task has written. No batch may follow. */
  void publish(Encoder encoder, TaskWritten written) throws IOException {
    file.finish();
    upload.publish();
    byte[] body = index.encode(plan.index(), encoder);
    ObjectUpload beside = to.begin(indexKey());
    try {
      beside.write(body, body.length);
      beside.publish();
    } finally {
      beside.abort();
    }
    to.check(store.incarnation(), dataKey(), indexKey());
    ArrayNode named = Planner.JSON.createArrayNode(); // Python's NewObject
    named.add(APPEND).add(plan.n0()).add(uploadId).add(topic.id()).add(file.size()).add(file.crc32c());
    named.add(body.length).add(ObjectIndex.crc32c(body, 0, body.length) & 0xFFFFFFFFL);
    named.addArray().addArray().add(store.id()).add(store.registration());
    written.add(named.addNull().addNull().addNull(), index.slices(written.objects(), topic.id()));
  }

  void abort() {
    upload.abort();
  }

  private String dataKey() {
    return name + ".arrow";
  }

  private String indexKey() {
    return name + ".index";
  }
}
