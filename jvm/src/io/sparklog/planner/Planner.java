package io.sparklog.planner;

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
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkEnv;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A Python process beside this JVM, which decides: in the driver it plans reads, and plans and commits writes; in an
 * executor it reads what Java cannot, and words errors. One per JVM and Python, started on demand; it ends when the JVM
 * does, because its standard input ends.
 *
 * <p>The planner writes {@link #START} first; whatever Python printed before that goes to the standard error. Messages
 * both ways: length (int32) and id (int64), big-endian, then a kind (one byte) and the payload. Any number of requests
 * may be under way; a reply has the id of its request. A request with rows is its length (int32), its JSON, and an Arrow
 * message.
 *
 * <p>A request may take any time, as long as the planner answers pings. One that is silent is killed; the next request
 * starts another one.
 */
public final class Planner {
  private static final StreamReadConstraints LONG_TEXTS = // a task's plan is one text in the planner's answer
      StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build();
  public static final ObjectMapper JSON =
      JsonMapper.builder(JsonFactory.builder().streamReadConstraints(LONG_TEXTS).build())
          .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
          .build();
  private static final String PROTOCOL = "10"; // of the messages; another sparklog may speak another one
  private static final byte[] START = "\0sparklog planner\0".getBytes(StandardCharsets.US_ASCII);
  private static final byte REQUEST = 'J';
  private static final byte WITH_ROWS = 'A';
  private static final byte ERROR = 'E';
  private static final byte PING = 'P';
  private static final int HEAD_BYTES = 9;
  private static final int SIGNALED = 128; // Java adds the signal to it, in place of an exit code
  private static final int TICK_MS = 1000;
  private static final int END_S = 10; // from the end of a pipe to that of its process, on a busy machine
  private static final int SILENCE_LIMIT_S = 60; // also while it starts: a busy machine imports for long
  private static final String ADVICE =
      "; wanted Python 3.11 or newer with sparklog: install it there, or set spark.sparklog.python (or SPARKLOG_PYTHON) to"
          + " one that has it";
  private static final String LOOK = // runs in any Python
      "import pkgutil, sys; names = [module[1] for module in pkgutil.iter_modules()]; "
          + "print('Python %d.%d' % sys.version_info[:2] + ('' if 'sparklog' in names else ' without sparklog'))";
  private static final Logger LOG = LoggerFactory.getLogger("sparklog");
  private static final Map<String, Planner> RUNNING = new HashMap<>();

  private final String python;
  private final int silenceLimitS;
  private final Process process;
  private final DataOutputStream requests;
  private final Map<Long, CompletableFuture<Reply>> awaited = new ConcurrentHashMap<>();
  private final AtomicLong heard = new AtomicLong(); // messages, and the start
  private volatile boolean hasEnded;
  private volatile boolean isSilent;
  private String end; // null until somebody asks
  private final AtomicLong ids = new AtomicLong();

  /** A reply: JSON, or an Arrow message. */
  public record Reply(byte kind, byte[] payload) {}

  /** The planner has not answered. `isSent`: it may have done what was requested. */
  public static final class Unanswered extends SparklogException {
    public final boolean isSent;

    private Unanswered(boolean isSent, String message, Throwable cause) {
      super("PLANNER_FAILED: " + message, cause);
      this.isSent = isSent;
    }

    /** The error of a change that may have been made. `advice`: what to do now. */
    public SparklogException outcomeUnknown(String advice) {
      return new SparklogException("COMMIT_OUTCOME_UNKNOWN: " + advice + "; " + getMessage(), this);
    }
  }

  Planner(String python, int silenceLimitS) {
    this.python = python;
    this.silenceLimitS = silenceLimitS;
    try {
      process = run("-m", "sparklog.spark.planner", PROTOCOL);
    } catch (IOException error) {
      throw new Unanswered(false, "wanted to start a planner, found: " + error.getMessage() + ADVICE, error);
    }
    requests = new DataOutputStream(process.getOutputStream());
    start("replies", this::receive);
    start("pings", this::ping);
    start("watch", this::watch);
  }

  private Process run(String... arguments) throws IOException {
    ProcessBuilder builder = new ProcessBuilder(python);
    builder.command().addAll(List.of(arguments));
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    addSubmittedFiles(builder.environment());
    return builder.start();
  }

  private static void start(String name, Runnable work) {
    Thread thread = new Thread(work, "sparklog-planner-" + name);
    thread.setDaemon(true);
    thread.start();
  }

  /** The planner of the driver. */
  public static Planner ofDriver() {
    return of(pythonCommand());
  }

  /** The planner of this JVM that runs this Python. */
  public static synchronized Planner of(String python) {
    Planner planner = RUNNING.get(python);
    if (planner == null || planner.hasEnded || !planner.process.isAlive()) {
      planner = new Planner(python, SILENCE_LIMIT_S);
      RUNNING.put(python, planner);
    }
    return planner;
  }

  /** The Python of planners: one of their own, else that of Spark's workers, which may be too old for sparklog. */
  public static String pythonCommand() {
    String own = setting("spark.sparklog.python", "SPARKLOG_PYTHON");
    String command = own == null ? setting("spark.pyspark.python", "PYSPARK_PYTHON") : own;
    return command == null ? "python3" : command;
  }

  private static String setting(String ofSpark, String ofEnvironment) {
    SparkEnv spark = SparkEnv.get();
    return spark != null && spark.conf().contains(ofSpark) ? spark.conf().get(ofSpark) : System.getenv(ofEnvironment);
  }

  /** A request of the driver. What Java can't do is refused if Spark has no data source in Python to do it. */
  public static ObjectNode request(String name, Map<String, String> options) {
    ObjectNode request = JSON.createObjectNode().put("name", name).put("alone", !SparkVersion.hasPythonSources());
    ObjectNode given = request.putObject("options");
    options.forEach(given::put);
    return request;
  }

  /** Logs the warnings in a reply, except those in `logged`, and adds them to it. */
  public static void logWarnings(JsonNode reply, Set<String> logged) {
    for (JsonNode warning : reply.get("warnings")) {
      if (logged.add(warning.asText())) {
        LOG.warn("{}", warning.asText());
      }
    }
  }

  /** JSON as a record of this type. Throws IllegalStateException if something has another type or does not fit. */
  public static <T> T value(String json, Class<T> type) {
    try {
      return JSON.readValue(json, type);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  /** As {@link #value(String, Class)}, of JSON that is parsed already. */
  public static <T> T value(JsonNode json, Class<T> type) {
    try {
      return JSON.treeToValue(json, type);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  public static List<String> strings(JsonNode array) {
    List<String> texts = new ArrayList<>();
    array.forEach(text -> texts.add(text.asText()));
    return texts;
  }

  /**
   * The answer to a request that changes nothing: if this planner does not answer, another one is asked, once. Throws
   * SparklogException with the planner's error, or Unanswered.
   */
  public JsonNode ask(ObjectNode request) {
    try {
      return json(exchange(request));
    } catch (Unanswered first) {
      return json(another(first).exchange(request));
    }
  }

  /** As {@link #ask}, for a request that may change something: it is sent once. */
  public JsonNode askOnce(ObjectNode request) {
    try {
      return json(exchange(request));
    } catch (Unanswered first) {
      if (first.isSent) {
        throw first;
      }
      return json(another(first).exchange(request));
    }
  }

  private Planner another(Unanswered first) {
    if (Thread.currentThread().isInterrupted()) {
      throw first; // an interrupted thread would not wait for the next answer either
    }
    LOG.warn("another planner is asked: {}", first.getMessage());
    return of(python);
  }

  /** The JSON of a reply. */
  public static JsonNode json(Reply reply) {
    try {
      return JSON.readTree(reply.payload());
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  /** This planner's reply, which may be an Arrow message. Throws SparklogException with its error, or Unanswered. */
  public Reply exchange(ObjectNode request) {
    return exchange(request, null);
  }

  /** As {@link #exchange(ObjectNode)}, of a request with rows: an Arrow message. */
  public Reply exchange(ObjectNode request, byte[] rows) {
    return begin(request, rows).await();
  }

  /** Send a request, with rows unless they are null. Throws Unanswered. Then await the reply. */
  public Exchange begin(ObjectNode request, byte[] rows) {
    Exchange begun = new Exchange(ids.incrementAndGet());
    awaited.put(begun.id, begun.coming);
    try {
      if (hasEnded) {
        throw unanswered(false, null);
      }
      byte[] json = JSON.writeValueAsBytes(request);
      if (rows == null) {
        send(REQUEST, begun.id, json);
      } else {
        send(WITH_ROWS, begun.id, ByteBuffer.allocate(Integer.BYTES).putInt(json.length).array(), json, rows);
      }
      return begun;
    } catch (IOException error) {
      awaited.remove(begun.id);
      throw unanswered(false, error); // the end of the request was not sent, so the planner can't act on it
    } catch (RuntimeException error) { // also of a request that is too long: nobody awaits its reply
      awaited.remove(begun.id);
      throw error;
    }
  }

  /** A request that was sent. */
  public final class Exchange {
    private final long id;
    private final CompletableFuture<Reply> coming = new CompletableFuture<>();

    private Exchange(long id) {
      this.id = id;
    }

    /** The planner's reply, which may be an Arrow message. Throws SparklogException with its error, or Unanswered. */
    public Reply await() {
      try {
        Reply reply = coming.get();
        if (reply.kind() == ERROR) {
          throw new SparklogException(json(reply).asText(), null);
        }
        return reply;
      } catch (ExecutionException error) {
        throw unanswered(true, error.getCause());
      } catch (InterruptedException error) {
        Interruption.restore();
        throw new Unanswered(true, "interrupted", error);
      } finally {
        awaited.remove(id);
      }
    }
  }

  private void send(byte kind, long id, byte[]... payload) throws IOException {
    int length = HEAD_BYTES;
    for (byte[] part : payload) {
      length = Math.addExact(length, part.length);
    }
    try {
      synchronized (requests) {
        requests.writeInt(length);
        requests.writeLong(id);
        requests.writeByte(kind);
        for (byte[] part : payload) {
          requests.write(part);
        }
        requests.flush();
      }
    } catch (IOException error) {
      hasEnded = true; // it reads no more, though its process may still be there
      throw error;
    }
  }

  private void receive() {
    Throwable reason; // any Throwable: no other thread completes what is awaited
    try (DataInputStream replies = new DataInputStream(process.getInputStream())) {
      skipToStart(replies);
      heard.incrementAndGet();
      while (true) {
        byte[] payload = new byte[replies.readInt() - HEAD_BYTES];
        long id = replies.readLong();
        byte kind = replies.readByte();
        replies.readFully(payload);
        heard.incrementAndGet();
        CompletableFuture<Reply> coming = awaited.get(id);
        if (coming != null) {
          coming.complete(new Reply(kind, payload));
        }
      }
    } catch (Throwable error) {
      reason = error;
    }
    hasEnded = true;
    end("it has closed its standard output");
    process.destroy();
    for (CompletableFuture<Reply> coming : awaited.values()) {
      coming.completeExceptionally(reason);
    }
  }

  /** Read up to START. What Python or its sitecustomize printed before goes to the standard error. */
  private static void skipToStart(DataInputStream replies) throws IOException {
    int matched = 0;
    while (matched < START.length) {
      byte next = replies.readByte();
      if (next != START[matched]) {
        System.err.write(START, 0, matched);
        matched = 0; // START can begin again only at this byte: its first byte comes again only as its last
      }
      if (next == START[matched]) {
        matched++;
      } else {
        System.err.write(next);
      }
    }
    System.err.flush();
  }

  /** Ping while an answer is awaited. A thread of its own: a stopped planner's pipe may be full. */
  private void ping() {
    try {
      while (!hasEnded) {
        Thread.sleep(TICK_MS);
        if (!awaited.isEmpty()) {
          send(PING, 0);
        }
      }
    } catch (IOException | InterruptedException error) {
      // It has ended. The threads that await an answer learn this from `receive`.
    }
  }

  /** Kill the planner once it has been silent for too long. Counts ticks: in a suspended machine, no time passes. */
  private void watch() {
    try {
      long before = 0;
      int silentS = 0;
      while (silentS < silenceLimitS) {
        Thread.sleep(TICK_MS);
        if (hasEnded && awaited.isEmpty()) {
          return;
        }
        silentS = awaited.isEmpty() || heard.get() != before ? 0 : silentS + 1;
        before = heard.get();
      }
      isSilent = true;
      process.descendants().forEach(ProcessHandle::destroyForcibly); // `python` may be a script that starts one
      process.toHandle().destroyForcibly();
    } catch (InterruptedException error) {
      // No thread interrupts this one.
    }
  }

  /** How it ended, the same for all who ask: later its process ends because it is told to. */
  private synchronized String end(String ifAlive) {
    if (end == null) {
      end = howItEnded(ifAlive);
    }
    return end;
  }

  private String howItEnded(String ifAlive) {
    try {
      if (isSilent) {
        return "it showed no sign of life for " + silenceLimitS + " s, so it was killed";
      }
      if (!process.waitFor(END_S, TimeUnit.SECONDS)) {
        return ifAlive;
      }
    } catch (InterruptedException error) {
      Interruption.restore();
      return "it has ended";
    }
    int code = process.exitValue();
    return code > SIGNALED ? "signal " + (code - SIGNALED) + " ended it" : "it ended with exit code " + code;
  }

  private Unanswered unanswered(boolean isSent, Throwable cause) {
    String found = python + " -m sparklog.spark.planner, found that " + end("it reads no more");
    String log = " (its standard error, in the log of this JVM, may say why)";
    String advice = heard.get() > 0 ? "" : isSilent ? ADVICE : ": it is " + look() + ADVICE;
    return new Unanswered(isSent, "wanted an answer from " + found + log + advice, cause);
  }

  /** The version of this Python, and whether it has sparklog. */
  private String look() {
    Process asked = null;
    try {
      asked = run("-c", LOOK);
      if (asked.waitFor(END_S, TimeUnit.SECONDS) && asked.exitValue() == 0) {
        return new String(asked.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
      }
    } catch (IOException error) {
      // It started before.
    } catch (InterruptedException error) {
      Interruption.restore();
    } finally {
      if (asked != null) {
        asked.destroy();
      }
    }
    return "no Python that works";
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
