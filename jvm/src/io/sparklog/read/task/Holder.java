package io.sparklog.read.task;

import io.sparklog.arrow.DamagedException;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** A store that has an object. */
record Holder(String url) {
  private static final Map<String, Long> FAILED_NS = new ConcurrentHashMap<>();

  /** The holders in the order in which to ask them: the plan's, but the task's zone first, and failed ones last. */
  static List<Holder> inOrder(ReadTask task, List<String> ids) {
    long avoidedNs = TimeUnit.MILLISECONDS.toNanos(task.limits().failedForMs());
    String zone = System.getenv("SPARKLOG_ZONE");
    List<Holder> near = new ArrayList<>();
    List<Holder> far = new ArrayList<>();
    List<Holder> failed = new ArrayList<>();
    long now = System.nanoTime();
    for (String id : ids) {
      ReadTask.Store store = task.stores().get(id);
      Holder holder = new Holder(store.url());
      boolean isNear = zone != null && !zone.isEmpty() && zone.equals(store.zone());
      boolean hasFailed = now - FAILED_NS.getOrDefault(holder.url, now - avoidedNs) < avoidedNs;
      List<Holder> kind = hasFailed ? failed : isNear ? near : far;
      kind.add(holder);
    }
    near.addAll(far);
    near.addAll(failed);
    return near;
  }

  /** Remember that a read failed, unless only one object was at fault: it is gone, or damaged. */
  void hasFailed(Exception error) {
    boolean isOfObject =
        error instanceof DamagedException
            || error instanceof NoSuchFileException
            || error instanceof FileNotFoundException
            || error instanceof EOFException;
    if (!isOfObject) {
      FAILED_NS.put(url, System.nanoTime());
    }
  }
}
