package io.sparklog.read.task;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.sparklog.arrow.DamagedException;
import io.sparklog.arrow.Decoder;
import io.sparklog.planner.Planner;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.zip.CRC32C;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;

/**
 * Reads damaged objects: `Fuzz FOLDER SEED ROUNDS`. FOLDER is a store, and has a line of ranges.json for each slice.
 * Each round damages an object, an index or the plan, reads it as a task does, and decodes it once more without the
 * comparison of checksums. It prints what the rounds found; a wrong row or another exception ends it with code 1.
 *
 * <p>`Fuzz FOLDER` reads the objects of hostile.py, whose checksums are right: it prints a line for each, as hostile.py
 * does for Python.
 */
final class Fuzz {
  private static final String[] ALL = {
    "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"
  };

  private static final ReadTask.Limits LIMITS = new ReadTask.Limits(8 << 20, 65_536, 30_000);

  private final Random dice;
  private final Path folder;
  private int refused;
  private int unharmed;
  private int decoded;

  private Fuzz(Path folder, long seed) {
    this.folder = folder;
    dice = new Random(seed);
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length == 1) {
      readHostile(Path.of(arguments[0]));
      return;
    }
    Fuzz fuzz = new Fuzz(Path.of(arguments[0]), Long.parseLong(arguments[1]));
    fuzz.run(Integer.parseInt(arguments[2]));
    System.out.printf("%d refused, %d unharmed, %d decoded without checksums%n", fuzz.refused, fuzz.unharmed, fuzz.decoded);
  }

  private static void readHostile(Path folder) throws Exception {
    int number = 0;
    for (String line : Files.readAllLines(folder.resolve("hostile.json"))) {
      JsonNode plan = Planner.JSON.readTree(line);
      String[] columns = Planner.JSON.convertValue(plan.get("columns"), String[].class);
      JsonNode range = plan.get("range");
      List<String> found = new ArrayList<>();
      String end = "";
      try {
        read(range, range.get("slices").get(0), folder, found, columns);
      } catch (DamagedException error) {
        end = " refused";
      }
      CRC32C seen = new CRC32C();
      found.forEach(text -> seen.update(text.getBytes(StandardCharsets.UTF_8)));
      System.out.printf("%d %d %08x%s%n", number++, found.size(), seen.getValue(), end);
    }
  }

  private void run(int rounds) throws Exception {
    List<JsonNode> ranges = new ArrayList<>();
    for (String line : Files.readAllLines(folder.resolve("ranges.json"))) {
      ranges.add(Planner.JSON.readTree(line));
    }
    List<List<String>> right = new ArrayList<>();
    for (JsonNode range : ranges) {
      right.add(rows(range, range.get("slices").get(0), folder));
    }
    Path damaged = Files.createDirectories(folder.resolve("damaged"));
    for (int round = 0; round < rounds; round++) {
      int chosen = dice.nextInt(ranges.size());
      JsonNode range = ranges.get(chosen);
      JsonNode slice = range.get("slices").get(0);
      byte[] object = Files.readAllBytes(folder.resolve(slice.get("key").asText()));
      byte[] index = Files.readAllBytes(folder.resolve(slice.get("index_key").asText()));
      if (dice.nextInt(10) == 0) {
        wrongPlan(range, slice);
        continue;
      }
      int what = dice.nextInt(10);
      byte[] spoiltObject = what < 7 ? spoilt(object) : object;
      byte[] spoiltIndex = what >= 7 ? spoilt(index) : index;
      Files.write(damaged.resolve("object"), spoiltObject);
      Files.write(damaged.resolve("index" + round), spoiltIndex); // each a name of its own: indexes are cached
      JsonNode plan = ((ObjectNode) slice.deepCopy())
          .put("key", "object").put("index_key", "index" + round);
      check(range, plan, damaged, right.get(chosen), !Arrays.equals(index, spoiltIndex));
      Files.delete(damaged.resolve("index" + round));
      withoutChecksum(spoiltObject, new ObjectIndex(index, Planner.value(slice, ReadTask.Slice.class)));
    }
  }

  /** A plan with a wrong number may give wrong offsets, but nothing beyond a buffer, and no error of the JVM. */
  private void wrongPlan(JsonNode range, JsonNode slice) {
    List<String> names = new ArrayList<>();
    slice.fieldNames().forEachRemaining(name -> {
      if (slice.get(name).isNumber()) {
        names.add(name);
      }
    });
    String name = names.get(dice.nextInt(names.size()));
    long[] wrong = {0, -1, 1, slice.get(name).asLong() + 1, Integer.MAX_VALUE, 1L << 40, dice.nextInt(10_000)};
    ObjectNode plan = ((ObjectNode) slice.deepCopy()).put(name, wrong[dice.nextInt(wrong.length)]);
    try {
      read(range, plan, folder, new ArrayList<>());
      unharmed++;
    } catch (Exception error) { // RangeReader leaves every exception to Python
      refused++;
    }
  }

  /** A read must give the right rows, or fewer of them and then an error; of a wrong index always an error. */
  private void check(JsonNode range, JsonNode slice, Path store, List<String> right, boolean hasWrongIndex)
      throws Exception {
    List<String> found = new ArrayList<>();
    try {
      read(range, slice, store, found);
      if (hasWrongIndex || !found.equals(right)) {
        throw new AssertionError((hasWrongIndex ? "rows by a wrong index, of " : "wrong rows of ") + slice);
      }
      unharmed++;
    } catch (DamagedException | java.io.IOException error) {
      refused++;
      if (!found.equals(right.subList(0, found.size()))) {
        throw new AssertionError("wrong rows before the error, of " + slice);
      }
    }
  }

  /** Without checksums, damage may decode to anything, but every value must lie within its buffer. */
  private void withoutChecksum(byte[] object, ObjectIndex index) {
    try (Decoder decoder = new Decoder()) {
      for (int batch = 0; batch < index.batches; batch++) {
        int start = (int) Math.min(index.positions[batch], object.length);
        int length = (int) Math.min(index.lengths[batch], object.length - start);
        Decoder.Batch decoded = decoder.decode(object, start, length, index.layout(), "key", "value", "headers", "timestamp");
        ColumnVector[] columns = decoded.columns("key", "value", "headers", "timestamp");
        for (int row = 0; row < Math.min(decoded.rows(), 10_000); row++) {
          text(columns, row);
        }
        this.decoded++;
      }
    } catch (DamagedException error) {
      // It was noticed.
    }
  }

  private static List<String> rows(JsonNode range, JsonNode slice, Path store) throws Exception {
    List<String> found = new ArrayList<>();
    read(range, slice, store, found);
    return found;
  }

  private static void read(JsonNode json, JsonNode part, Path store, List<String> found) throws Exception {
    read(json, part, store, found, ALL);
  }

  private static void read(JsonNode json, JsonNode part, Path store, List<String> found, String[] columns)
      throws Exception {
    ReadTask.Range range = Planner.value(json, ReadTask.Range.class);
    ReadTask.Slice slice = Planner.value(part, ReadTask.Slice.class);
    SliceReader.Wanted wanted = new SliceReader.Wanted(range.start(), range.end(), columns, LIMITS);
    Holder holder = new Holder("file://" + store);
    try (Decoder decoder = new Decoder()) {
      SliceReader reader = new SliceReader(range, slice, holder, wanted, decoder, new ReadMetrics());
      try {
        for (RangeReader.Records rows = reader.next(); rows != null; rows = reader.next()) {
          for (int row = 0; row < rows.count(); row++) {
            found.add(text(rows.columns(), row));
          }
        }
      } finally {
        reader.close();
      }
    }
  }

  private static String text(ColumnVector[] columns, int row) {
    StringBuilder text = new StringBuilder();
    for (ColumnVector column : columns) {
      text.append(column.isNullAt(row) ? "null" : value(column, row)).append(' ');
    }
    return text.toString();
  }

  private static String value(ColumnVector column, int row) {
    if (column.dataType() instanceof BinaryType) {
      return hex(column.getBinary(row));
    }
    if (column.dataType() instanceof StringType) {
      return column.getUTF8String(row).toString();
    }
    if (column.dataType() instanceof ArrayType) {
      ColumnarArray headers = column.getArray(row);
      StringBuilder text = new StringBuilder("[");
      for (int i = 0; i < headers.numElements(); i++) {
        InternalRow pair = headers.getStruct(i, 2);
        text.append(pair.getUTF8String(0)).append(hex(pair.getBinary(1)));
      }
      return text.append("]").toString();
    }
    return column.dataType() instanceof IntegerType ? "" + column.getInt(row) : "" + column.getLong(row);
  }

  private static String hex(byte[] bytes) {
    return bytes == null ? "null" : HexFormat.of().formatHex(bytes) + ".";
  }

  private byte[] spoilt(byte[] body) {
    byte[] spoilt = body.clone();
    switch (dice.nextInt(5)) {
      case 0 -> {
        return Arrays.copyOf(body, dice.nextInt(body.length));
      }
      case 1 -> {
        int start = dice.nextInt(body.length);
        int length = Math.min(1 + dice.nextInt(64), body.length - start);
        Arrays.fill(spoilt, start, start + length, (byte) (dice.nextBoolean() ? 0 : -1));
      }
      case 2 -> {
        for (int i = 0; i < 8; i++) {
          spoilt[dice.nextInt(body.length)] = (byte) dice.nextInt();
        }
      }
      default -> spoilt[dice.nextInt(body.length)] ^= (byte) (1 << dice.nextInt(8));
    }
    return spoilt;
  }
}
