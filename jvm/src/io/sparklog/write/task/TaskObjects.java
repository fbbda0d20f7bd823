package io.sparklog.write.task;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import io.sparklog.arrow.Encoder;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import io.sparklog.storage.ObjectStore;
import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.ClusterStorageCapacityExceededException;
import org.apache.hadoop.security.AccessControlException;

/** All objects that one task is writing, and the memory that they take: log/write/objects_writer.py, task_memory.py. */
final class TaskObjects {
  private static final int SPARE = 4;

  final WritePlan plan;
  final StoreLanes lanes;
  final TaskWritten written = new TaskWritten();
  final PythonWriter byPython; // null: Java writes
  long pendingBytes; // rows that wait to be encoded
  long heldBytes; // encoded batches of open objects
  long streamedBytes; // the part of these objects that is already in the stores
  int openPartitions; // of open objects
  private final String python;
  private final List<ObjectsWriter> writers = new ArrayList<>();
  private final Map<String, Encoder> encoders = new HashMap<>(); // by compression
  private final ArrayDeque<PendingRows> spare = new ArrayDeque<>(); // empty, with memory to be used again

  TaskObjects(WritePlan plan, String python) {
    this.plan = plan;
    lanes = new StoreLanes(plan.lagTimeMaxMs());
    this.python = python;
    byPython = plan.byPython() ? new PythonWriter(plan, python) : null;
  }

  ObjectsWriter begin(WritePlan.Topic topic, List<WritePlan.Store> stores) {
    ObjectsWriter writer = new ObjectsWriter(this, topic, stores);
    writers.add(writer);
    return writer;
  }

  /** Close the largest objects until the open ones together are smaller than one object may be. */
  void closeLargest() {
    while (pendingBytes + heldBytes + streamedBytes >= plan.limits().objectBytes()) {
      writers.stream().max(Comparator.comparingLong(ObjectsWriter::sizeBytes)).orElseThrow().close();
    }
  }

  /** Upload everything. Return what the task has written, as JSON. */
  String finish() {
    if (byPython != null) {
      return byPython.finish();
    }
    writers.forEach(ObjectsWriter::close);
    if (lanes.givenUp().isEmpty()) {
      return written.json();
    }
    ObjectNode request = failures("without_failed", lanes.givenUp());
    request.putRawValue("written", new RawValue(written.json()));
    return Planner.of(python).ask(request).toString();
  }

  /** Drop what is not uploaded yet, and free native memory. */
  void abort() {
    if (byPython != null) {
      byPython.close();
    }
    writers.forEach(ObjectsWriter::abort);
    writers.clear();
    spare.clear();
    encoders.values().forEach(Encoder::close);
  }

  Encoder encoder(String compression) {
    return encoders.computeIfAbsent(compression, name -> new Encoder(name, plan.limits().smallBatchBytes()));
  }

  PendingRows emptyRows() {
    PendingRows rows = spare.poll();
    return rows == null ? new PendingRows() : rows;
  }

  void reuse(PendingRows rows) {
    if (spare.size() < SPARE) {
      spare.push(rows);
    }
  }

  /** The error of a row that can't be written, in Python's words. */
  SparklogException refused(ObjectNode row) {
    return asked(row.put("name", "refuse_row").put("plan", plan.plan()), null);
  }

  /** The error of stores none of which has taken an object, in Python's words. */
  SparklogException blamed(List<WritePlan.Store> stores, IOException error) {
    if (error instanceof ClosedByInterruptException || Thread.currentThread().isInterrupted()) {
      return new SparklogException("the task was killed", error); // no store is to blame
    }
    return asked(failures("blame_stores", lanes.reasons(stores, error)), error);
  }

  private ObjectNode failures(String request, Map<WritePlan.Store, IOException> failures) {
    ObjectNode asked = Planner.JSON.createObjectNode().put("name", request).put("plan", plan.plan());
    ArrayNode described = asked.putArray("failures");
    failures.forEach(
        (store, error) -> {
          ObjectNode failure = described.addObject().put("store", store.id()).put("url", store.url());
          failure.put("reason", reason(error));
          failure.put("held_up_ms", error instanceof StoreLanes.TooSlow slow ? (Long) slow.heldUpMs : null);
          if (error instanceof ObjectStore.AnotherIncarnation other) {
            failure.putObject("incarnation").put("found", other.found);
          }
        });
    return asked;
  }

  private SparklogException asked(ObjectNode request, IOException cause) {
    try {
      Planner.of(python).ask(request);
    } catch (SparklogException error) {
      if (cause != null) {
        error.addSuppressed(cause);
      }
      return error;
    }
    throw new IllegalStateException("the planner has no objection", cause);
  }

  /** The reason, in the words of the operating system where it has some. */
  private static String reason(IOException error) {
    if (error instanceof AccessDeniedException || error instanceof AccessControlException) {
      return "Permission denied";
    }
    if (error instanceof ClusterStorageCapacityExceededException) {
      return "No space left on device";
    }
    if (error instanceof NoSuchFileException) {
      return "No such file or directory";
    }
    if (error instanceof FileAlreadyExistsException) {
      return "File exists";
    }
    if (error instanceof FileSystemException file && file.getReason() != null) {
      return file.getReason();
    }
    boolean isPlain = error.getClass() == IOException.class && error.getMessage() != null;
    return (isPlain ? error.getMessage() : error.toString()).lines().findFirst().orElse(""); // a name node says more
  }
}
