package io.sparklog.arrow;

import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of a batch, as Spark reads it: views of Arrow's buffers, of which nothing is copied.
 *
 * <p>Spark's ArrowColumnVector does not check the bounds of a text, so a damaged one reads memory beyond its buffer. With
 * bounds that are checked first, as here, it still needs its buffers outside the heap, and a batch took 1.4 times (zstd) to
 * 2.2 times (not compressed) the processor time.
 */
public abstract class LogVector extends ColumnVector {
  private final Decoder.Span validity;
  final int rows;
  int from; // the row of the batch that is row 0 of this vector

  private LogVector(DataType type, Decoder.Span validity, int rows) {
    super(type);
    this.validity = validity;
    this.rows = rows;
  }

  /** Skip the first rows from now on. Returns this column. */
  public LogVector skip(int rows) {
    from = rows;
    return this;
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return validity != null;
  }

  @Override
  public int numNulls() {
    int nulls = 0;
    for (int row = 0; row < rows - from; row++) {
      nulls += isNullAt(row) ? 1 : 0;
    }
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    if (validity == null) {
      return false;
    }
    int bit = from + row;
    return (validity.bytes()[validity.start() + (bit >> 3)] >> (bit & 7) & 1) == 0;
  }

  @Override
  public boolean getBoolean(int row) {
    throw unsupported();
  }

  @Override
  public byte getByte(int row) {
    throw unsupported();
  }

  @Override
  public short getShort(int row) {
    throw unsupported();
  }

  @Override
  public int getInt(int row) {
    throw unsupported();
  }

  @Override
  public long getLong(int row) {
    throw unsupported();
  }

  @Override
  public float getFloat(int row) {
    throw unsupported();
  }

  @Override
  public double getDouble(int row) {
    throw unsupported();
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw unsupported();
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw unsupported();
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw unsupported();
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw unsupported();
  }

  @Override
  public byte[] getBinary(int row) {
    throw unsupported();
  }

  @Override
  public ColumnVector getChild(int number) {
    throw unsupported();
  }

  private UnsupportedOperationException unsupported() {
    return new UnsupportedOperationException("a column of type " + type);
  }

  /** Stored numbers of 32 bits. */
  static final class Int32s extends LogVector {
    private final byte[] bytes;
    private final int start;

    Int32s(Decoder.Span validity, Decoder.Span data, int rows) {
      super(DataTypes.IntegerType, validity, rows);
      bytes = data.bytes();
      start = data.start();
    }

    @Override
    public int getInt(int row) {
      return LittleEndian.int32(bytes, start + 4 * (from + row));
    }
  }

  /** Stored numbers of 64 bits. */
  static final class Int64s extends LogVector {
    private final byte[] bytes;
    private final int start;

    Int64s(Decoder.Span validity, Decoder.Span data, int rows) {
      super(DataTypes.LongType, validity, rows);
      bytes = data.bytes();
      start = data.start();
    }

    @Override
    public long getLong(int row) {
      return LittleEndian.int64(bytes, start + 8 * (from + row));
    }
  }

  /** Stored texts or byte strings: value i is bytes [ends[i], ends[i + 1]) of `data`. */
  static final class Bytes extends LogVector {
    private final byte[] ends;
    private final int endsStart;
    private final byte[] data;
    private final int dataStart;

    Bytes(Decoder.Span validity, Decoder.Span ends, Decoder.Span data, int rows) {
      super(DataTypes.BinaryType, validity, rows);
      this.ends = ends.bytes();
      endsStart = ends.start();
      this.data = data.bytes();
      dataStart = data.start();
    }

    @Override
    public byte[] getBinary(int row) {
      if (isNullAt(row)) {
        return null;
      }
      int at = endsStart + 4 * (from + row);
      return Arrays.copyOfRange(data, dataStart + LittleEndian.int32(ends, at), dataStart + LittleEndian.int32(ends, at + 4));
    }

    @Override
    public UTF8String getUTF8String(int row) {
      if (isNullAt(row)) {
        return null;
      }
      int at = endsStart + 4 * (from + row);
      int start = LittleEndian.int32(ends, at);
      // A key of a header may be other bytes than UTF-8: U+FFFD for each of them, as message_decoder.py has it.
      return Utf8.text(data, dataStart + start, LittleEndian.int32(ends, at + 4) - start);
    }
  }

  /** Headers of one record after the other. */
  static final class Pairs extends LogVector {
    private final Bytes key;
    private final Bytes value;

    Pairs(Decoder.Span validity, Bytes key, Bytes value, int rows) {
      super(Columns.HEADER, validity, rows);
      this.key = key;
      this.value = value;
    }

    @Override
    public ColumnVector getChild(int number) {
      return number == 0 ? key : value;
    }
  }

  /** The headers of each record: list i is elements [ends[i], ends[i + 1]). */
  static final class Lists extends LogVector {
    private final byte[] ends;
    private final int endsStart;
    private final LogVector elements;

    Lists(Decoder.Span validity, Decoder.Span ends, LogVector elements, int rows) {
      super(Columns.HEADERS, validity, rows);
      this.ends = ends.bytes();
      endsStart = ends.start();
      this.elements = elements;
    }

    @Override
    public ColumnarArray getArray(int row) {
      if (isNullAt(row)) {
        return null;
      }
      int at = endsStart + 4 * (from + row);
      int start = LittleEndian.int32(ends, at);
      return new ColumnarArray(elements, start, LittleEndian.int32(ends, at + 4) - start);
    }
  }

  /** Consecutive numbers from `first` on. */
  public static final class Ascending extends LogVector {
    private final long first;

    public Ascending(long first, int rows) {
      super(DataTypes.LongType, null, rows);
      this.first = first;
    }

    @Override
    public long getLong(int row) {
      return first + from + row;
    }
  }

  /** One number in all rows. */
  public static final class Number extends LogVector {
    private final long value;

    public Number(long value, int rows) {
      super(DataTypes.LongType, null, rows);
      this.value = value;
    }

    @Override
    public int getInt(int row) {
      return (int) value;
    }

    @Override
    public long getLong(int row) {
      return value;
    }
  }

  /** One text in all rows. */
  public static final class Text extends LogVector {
    private final UTF8String value;

    public Text(String value, int rows) {
      super(DataTypes.StringType, null, rows);
      this.value = UTF8String.fromString(value);
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return value;
    }
  }
}
