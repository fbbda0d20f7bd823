package io.sparklog.write.task;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.planner.Planner;
import java.util.SortedSet;
import java.util.TreeSet;

/** What a task has written: Python's class of this name. */
final class TaskWritten {
  private final ObjectNode json = Planner.JSON.createObjectNode();
  private final ArrayNode objects = json.putArray("objects");
  private final ArrayNode slices = json.putArray("slices");
  private final SortedSet<Integer> keyless = new TreeSet<>();

  /** Add an object and its slices. */
  void add(ArrayNode named, ArrayNode ofObject) {
    objects.add(named);
    slices.addAll(ofObject);
  }

  /** The number of objects so far, which is that of the next one. */
  int objects() {
    return objects.size();
  }

  /** Note that the task has written a record without a key to this topic. */
  void addKeyless(int topicId) {
    keyless.add(topicId);
  }

  /** What TaskMessage carries. */
  String json() {
    ArrayNode ids = json.putArray("keyless");
    keyless.forEach(ids::add);
    return json.toString();
  }
}
