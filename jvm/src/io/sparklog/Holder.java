package io.sparklog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** A store that has an object. */
record Holder(String url) {
  private static final long AVOIDED_MS = 60_000;
  private static final Map<String, Long> FAILED = new ConcurrentHashMap<>();

  /** The holders in the order in which to ask them: the plan's, but the task's zone first, and failed ones last. */
  static List<Holder> inOrder(JsonNode stores, JsonNode ids) {
    String zone = System.getenv("SPARKLOG_ZONE");
    List<Holder> near = new ArrayList<>();
    List<Holder> far = new ArrayList<>();
    List<Holder> failed = new ArrayList<>();
    long now = System.currentTimeMillis();
    for (JsonNode id : ids) {
      JsonNode store = stores.get(id.asText());
      Holder holder = new Holder(store.get("url").asText());
      boolean isNear = zone != null && !zone.isEmpty() && zone.equals(store.get("zone").asText());
      List<Holder> kind = now - FAILED.getOrDefault(holder.url, 0L) < AVOIDED_MS ? failed : isNear ? near : far;
      kind.add(holder);
    }
    near.addAll(far);
    near.addAll(failed);
    return near;
  }

  void hasFailed() {
    FAILED.put(url, System.currentTimeMillis());
  }
}
