package io.sparklog;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkEnv;

/**
 * A Python process beside this JVM, which decides: in the driver it plans reads, and plans and commits writes; in an
 * executor it reads what Java cannot, and words errors. One per JVM and Python, started on demand; it ends when the JVM
 * does, because its standard input ends.
 *
 * <p>Messages both ways: length (int32) and id (int64), big-endian, then a kind (one byte) and the payload. Any number
 * of requests may be under way; a reply has the id of its request.
 */
final class Planner {
  private static final StreamReadConstraints LONG_TEXTS = // a task's plan is one text in the planner's answer
      StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build();
  static final ObjectMapper JSON =
      JsonMapper.builder(JsonFactory.builder().streamReadConstraints(LONG_TEXTS).build())
          .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
          .build();
  private static final String PROTOCOL = "5"; // of the messages; another sparklog may speak another one
  static final String FAILED = "PLANNER_FAILED"; // an error of the planner itself, in place of an answer
  private static final byte ERROR = 'E';
  private static final int HEAD_BYTES = 9;
  private static final Map<String, Planner> RUNNING = new HashMap<>();

  private final String python;
  private final Process process;
  private final DataOutputStream requests;
  private final Map<Long, CompletableFuture<Reply>> awaited = new ConcurrentHashMap<>();
  private volatile boolean hasEnded;
  private final AtomicLong ids = new AtomicLong();

  /** A reply: JSON, or an Arrow message. */
  record Reply(byte kind, byte[] payload) {}

  private Planner(String python) {
    this.python = python;
    ProcessBuilder builder = new ProcessBuilder(python, "-m", "sparklog.spark.planner", PROTOCOL);
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    addSubmittedFiles(builder.environment());
    try {
      process = builder.start();
    } catch (IOException error) {
      throw new SparklogException(FAILED + ": can't start " + python + ": " + error.getMessage(), error);
    }
    requests = new DataOutputStream(process.getOutputStream());
    Thread replies = new Thread(this::receive, "sparklog-planner");
    replies.setDaemon(true);
    replies.start();
  }

  /** The planner of the driver. */
  static Planner ofDriver() {
    return of(pythonCommand());
  }

  /** The planner of this JVM that runs this Python. */
  static synchronized Planner of(String python) {
    Planner planner = RUNNING.get(python);
    if (planner == null || planner.hasEnded || !planner.process.isAlive()) {
      planner = new Planner(python);
      RUNNING.put(python, planner);
    }
    return planner;
  }

  /** The Python of Spark's workers. */
  static String pythonCommand() {
    SparkEnv spark = SparkEnv.get();
    if (spark != null && spark.conf().contains("spark.pyspark.python")) {
      return spark.conf().get("spark.pyspark.python");
    }
    return System.getenv().getOrDefault("PYSPARK_PYTHON", "python3");
  }

  static ObjectNode request(String name, Map<String, String> options) {
    ObjectNode request = JSON.createObjectNode().put("name", name);
    ObjectNode given = request.putObject("options");
    options.forEach(given::put);
    return request;
  }

  /** JSON as a record of this type. Throws IllegalStateException if something has another type or does not fit. */
  static <T> T value(String json, Class<T> type) {
    try {
      return JSON.readValue(json, type);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  /** As {@link #value(String, Class)}, of JSON that is parsed already. */
  static <T> T value(JsonNode json, Class<T> type) {
    try {
      return JSON.treeToValue(json, type);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  static List<String> strings(JsonNode array) {
    List<String> texts = new ArrayList<>();
    array.forEach(text -> texts.add(text.asText()));
    return texts;
  }

  /** The planner's answer. Throws SparklogException with the planner's error. */
  JsonNode ask(ObjectNode request) {
    try {
      return JSON.readTree(exchange(request).payload());
    } catch (IOException error) {
      throw ended(error);
    }
  }

  /** As {@link #ask}, for a request whose reply may be an Arrow message. */
  Reply exchange(ObjectNode request) {
    long id = ids.incrementAndGet();
    CompletableFuture<Reply> coming = new CompletableFuture<>();
    awaited.put(id, coming);
    if (hasEnded) {
      awaited.remove(id);
      throw ended(null);
    }
    try {
      send(id, JSON.writeValueAsBytes(request));
      Reply reply = coming.get();
      if (reply.kind() == ERROR) {
        throw new SparklogException(JSON.readTree(reply.payload()).asText(), null);
      }
      return reply;
    } catch (IOException error) {
      throw ended(error);
    } catch (ExecutionException error) {
      throw ended(error.getCause());
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new SparklogException(FAILED + ": interrupted", error);
    } finally {
      awaited.remove(id);
    }
  }

  private void send(long id, byte[] payload) throws IOException {
    try {
      synchronized (requests) {
        requests.writeInt(HEAD_BYTES + payload.length);
        requests.writeLong(id);
        requests.writeByte('J');
        requests.write(payload);
        requests.flush();
      }
    } catch (IOException error) {
      hasEnded = true; // it reads no more, though its process may still be there
      throw error;
    }
  }

  private void receive() {
    Throwable reason; // whatever it is: nobody else completes what is awaited
    try (DataInputStream replies = new DataInputStream(process.getInputStream())) {
      while (true) {
        byte[] payload = new byte[replies.readInt() - HEAD_BYTES];
        long id = replies.readLong();
        byte kind = replies.readByte();
        replies.readFully(payload);
        CompletableFuture<Reply> coming = awaited.get(id);
        if (coming != null) {
          coming.complete(new Reply(kind, payload));
        }
      }
    } catch (Throwable error) {
      reason = error;
    }
    hasEnded = true;
    process.destroy();
    for (CompletableFuture<Reply> coming : awaited.values()) {
      coming.completeExceptionally(reason);
    }
  }

  private SparklogException ended(Throwable reason) {
    return new SparklogException(
        FAILED + ": " + python + " -m sparklog.spark.planner has ended (its standard error says why): is sparklog"
            + " installed there? Set PYSPARK_PYTHON or spark.pyspark.python to a Python that has it, or read with the"
            + " option " + SparklogSource.READER + "=rows",
        reason);
  }

  /** What was submitted by --py-files is imported by the planner, too. */
  private static void addSubmittedFiles(Map<String, String> environment) {
    SparkEnv spark = SparkEnv.get();
    String files = spark == null ? "" : spark.conf().get("spark.submit.pyFiles", "");
    if (!files.isEmpty()) {
      String own = files.replace(",", File.pathSeparator).replace("file:", "");
      environment.merge("PYTHONPATH", own, (path, more) -> more + File.pathSeparator + path);
    }
  }
}
