package io.sparklog.write.task;

import io.sparklog.arrow.Encoder;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;

/**
 * The objects of one topic on one set of stores, as log/write/objects_writer.py makes them: rows wait, are encoded, and
 * are held until their object is closed, because a partition's batches are contiguous in it. Within a partition, records
 * keep the order in which they were added, even across objects.
 */
final class ObjectsWriter {
  private final TaskObjects task;
  private final WritePlan.Topic topic;
  private final List<WritePlan.Store> stores;
  private final Encoder encoder;
  private final PendingRows[] pending; // by partition
  private final TreeMap<Integer, List<PendingRows.Encoded>> held = new TreeMap<>(); // of the current object
  private long pendingBytes;
  private long heldBytes;
  private long streamedBytes;
  private OpenObject open; // the current object, if a part of it is already in the only store

  ObjectsWriter(TaskObjects task, WritePlan.Topic topic, List<WritePlan.Store> stores) {
    this.task = task;
    this.topic = topic;
    this.stores = stores;
    encoder = task.encoder(topic.compression());
    pending = new PendingRows[topic.partitions()];
  }

  /** The size of the current object so far. Records that wait to be encoded count with their size before that. */
  long sizeBytes() {
    return pendingBytes + heldBytes + streamedBytes;
  }

  void add(int partition, LogRecord row) {
    long size = PendingRows.sizeOf(row);
    PendingRows rows = pending[partition];
    if (rows == null) {
      rows = pending[partition] = task.emptyRows();
      if (!held.containsKey(partition)) {
        held.put(partition, new ArrayList<>());
        task.openPartitions++;
      }
    } else if (rows.sizeBytes() + size > task.plan.limits().largestBatchBytes()) {
      encode(partition);
      rows = pending[partition] = task.emptyRows();
    }
    rows.add(row);
    countPending(size);
    if (rows.sizeBytes() >= task.plan.limits().bytesToEncode(task.openPartitions)) {
      encode(partition);
      if (topic.partitions() == 1 && stores.size() == 1 && heldBytes >= task.plan.limits().streamedFromBytes()) {
        stream();
      }
    }
  }

  /** Upload the current object, unless it is empty. */
  void close() {
    if (held.isEmpty()) {
      return;
    }
    for (int partition : held.keySet()) {
      if (pending[partition] != null) {
        encode(partition);
      }
    }
    upload();
    task.openPartitions -= held.size();
    task.streamedBytes -= streamedBytes;
    streamedBytes = 0;
    held.clear();
    countHeld(-heldBytes);
  }

  /** Upload what is held. If that fails, try again under another name, unless a part is already in the store. */
  private void upload() {
    int attempts = open == null ? task.plan.limits().uploadAttempts() : 1;
    while (true) {
      try {
        appendHeld();
        open.publish(encoder);
        open = null;
        return;
      } catch (IOException error) {
        abort();
        attempts--;
        if (attempts == 0 || Thread.currentThread().isInterrupted()) {
          throw task.blamed(stores, error);
        }
      }
    }
  }

  /** Drop the current object. */
  void abort() {
    if (open != null) {
      open.abort();
      open = null;
    }
  }

  /** Write the held batches to the store, because no other partition's have to come first. */
  private void stream() {
    try {
      appendHeld();
    } catch (IOException error) {
      throw task.blamed(stores, error);
    }
    held.values().forEach(List::clear);
    streamedBytes += heldBytes;
    task.streamedBytes += heldBytes;
    countHeld(-heldBytes);
  }

  private void appendHeld() throws IOException {
    if (open == null) {
      open = new OpenObject(task, topic, stores);
    }
    for (List<PendingRows.Encoded> batches : held.values()) {
      for (PendingRows.Encoded batch : batches) {
        open.append(batch);
      }
    }
  }

  private void encode(int partition) {
    PendingRows rows = pending[partition];
    pending[partition] = null;
    countPending(-rows.sizeBytes());
    boolean isLarge = rows.sizeBytes() > task.plan.limits().largestBatchBytes();
    PendingRows.Encoded batch = rows.encode(topic.id(), partition, encoder);
    if (!isLarge) {
      task.reuse(rows);
    }
    held.get(partition).add(batch);
    countHeld(batch.message().length);
  }

  private void countPending(long size) {
    pendingBytes += size;
    task.pendingBytes += size;
  }

  private void countHeld(long size) {
    heldBytes += size;
    task.heldBytes += size;
  }
}
