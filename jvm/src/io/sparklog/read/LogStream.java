package io.sparklog.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.planner.Planner;
import io.sparklog.planner.SparklogException;
import io.sparklog.read.task.ColumnReaderFactory;
import io.sparklog.read.task.RecordBounds;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * One run of a stream. Python decides where each micro-batch ends and which tasks it has; this keeps the state of the
 * run between two questions, so that a planner may end at any time.
 */
final class LogStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final Map<String, String> options;
  private final String[] columns;
  private final Set<String> logged = new HashSet<>(); // warnings that need no repetition
  private Offset initial; // Spark asks for it again, and "latest" must not move meanwhile
  private JsonNode run = Planner.JSON.createObjectNode(); // what the planner wants to get back

  LogStream(Map<String, String> options, String[] columns) {
    this.options = options;
    this.columns = columns;
  }

  /** A stream's positions, as JSON. */
  private static final class Positions extends Offset {
    private final String json;

    Positions(String json) {
      this.json = json;
    }

    @Override
    public String json() {
      return json;
    }
  }

  @Override
  public Offset initialOffset() {
    if (initial == null) {
      initial = new Positions(ask(Planner.request("stream_start", options)).get("offset").asText());
    }
    return initial;
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new Positions(json);
  }

  /** Any limit other than ReadAllAvailable, which Spark passes for `Trigger.Once`: Python knows the real limits. */
  @Override
  public ReadLimit getDefaultReadLimit() {
    return ReadLimit.maxRows(Long.MAX_VALUE);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    run = ask(Planner.request("stream_target", options)).get("run");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    ObjectNode request = Planner.request("stream_end", options).put("start", start.json());
    request.put("takes_all", limit instanceof ReadAllAvailable).set("run", run);
    JsonNode reply = ask(request);
    run = reply.get("run");
    return new Positions(reply.get("offset").asText());
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks with a start and a limit");
  }

  /** The high watermarks when the last micro-batch was planned; null before the first plan. */
  @Override
  public Offset reportLatestOffset() {
    return run.hasNonNull("newest") ? new Positions(run.get("newest").asText()) : null;
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    return OffsetsBehind.metrics(consumed.orElse(null), reportLatestOffset());
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    ObjectNode request = Planner.request("stream_tasks", options).put("start", start.json()).put("end", end.json());
    return PlannedRead.tasks(ask(request)).toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ColumnReaderFactory(columns, new RecordBounds());
  }

  @Override
  public void commit(Offset end) {
    // The checkpoint has it. A group follows with the next micro-batch.
  }

  @Override
  public void stop() {
    // The planner keeps nothing of a run.
  }

  /** The description of the source in the progress of a query, in the form of Spark's Kafka source. */
  @Override
  public String toString() {
    CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(options);
    for (String way : new String[] {"Subscribe", "SubscribePattern", "Assign"}) {
      if (given.containsKey(way)) {
        return "Sparklog[" + way + "[" + given.get(way) + "]]";
      }
    }
    return "Sparklog";
  }

  private JsonNode ask(ObjectNode request) {
    JsonNode reply;
    try {
      reply = Planner.ofDriver().ask(request);
    } catch (SparklogException error) {
      throw error.inStream("plan");
    }
    Planner.logWarnings(reply, logged);
    return reply;
  }
}
