package io.sparklog.arrow;

/** A column of a record batch to be written, which grows row by row. */
public abstract class GrowingColumn {
  /** A header of a record to be written. Key and value may be null. */
  public record Header(byte[] key, byte[] value) {
    public int sizeBytes() {
      return (key == null ? 0 : key.length) + (value == null ? 0 : value.length);
    }
  }

  private final GrowingBytes validity = new GrowingBytes();
  private int rows;
  private int nulls;

  /** Add the field nodes and the buffers of this column to a record batch, as Arrow orders them. */
  abstract void addTo(Encoder.Body body);

  /** Forget all rows. Memory is kept. */
  public void clear() {
    rows = 0;
    nulls = 0;
    validity.size = 0;
  }

  public final int rows() {
    return rows;
  }

  /** Count one more row. */
  final void count(boolean isNull) {
    if (isNull && nulls++ == 0) {
      validity.size = 0; // no row before was null
      for (int row = 0; row + 8 <= rows; row += 8) {
        validity.add((byte) 0xFF);
      }
      if ((rows & 7) != 0) {
        validity.add((byte) ((1 << (rows & 7)) - 1));
      }
    }
    if (nulls > 0) {
      if ((rows & 7) == 0) {
        validity.add((byte) 0);
      }
      if (!isNull) {
        validity.bytes[rows >> 3] |= (byte) (1 << (rows & 7));
      }
    }
    rows++;
  }

  final void addNode(Encoder.Body body) {
    body.node(rows, nulls);
  }

  /** Add the bits of the rows that are not null: no bytes if none is. */
  final void addValidity(Encoder.Body body) {
    body.buffer(validity.bytes, nulls == 0 ? 0 : validity.size);
  }

  /** Numbers of 32 or 64 bits. */
  public static final class Numbers extends GrowingColumn {
    private final GrowingBytes data = new GrowingBytes();

    public void add(int value) {
      count(false);
      data.add(value);
    }

    public void add(long value) {
      count(false);
      data.add(value);
    }

    @Override
    public void clear() {
      super.clear();
      data.size = 0;
    }

    @Override
    void addTo(Encoder.Body body) {
      addNode(body);
      addValidity(body);
      body.buffer(data.bytes, data.size);
    }
  }

  /** Texts or byte strings. */
  public static final class Strings extends GrowingColumn {
    private final GrowingBytes ends = new GrowingBytes();
    private final GrowingBytes data = new GrowingBytes();

    public Strings() {
      ends.add(0);
    }

    /** Add a value, which may be null. */
    public void add(byte[] value) {
      count(value == null);
      if (value != null) {
        data.add(value, value.length);
      }
      ends.add(data.size);
    }

    @Override
    public void clear() {
      super.clear();
      ends.size = 4;
      data.size = 0;
    }

    @Override
    void addTo(Encoder.Body body) {
      addNode(body);
      addBuffers(body);
    }

    private void addBuffers(Encoder.Body body) {
      addValidity(body);
      body.buffer(ends.bytes, ends.size);
      body.buffer(data.bytes, data.size);
    }
  }

  /** The headers of records: list&lt;struct&lt;key: string, value: binary&gt;&gt;. */
  public static final class Headers extends GrowingColumn {
    private final GrowingBytes ends = new GrowingBytes();
    private final Pairs pairs = new Pairs();

    public Headers() {
      ends.add(0);
    }

    /** Add the headers of one record, which may be null, as any of them. */
    public void add(Header[] headers) {
      count(headers == null);
      if (headers != null) {
        for (Header header : headers) {
          pairs.add(header);
        }
      }
      ends.add(pairs.rows());
    }

    @Override
    public void clear() {
      super.clear();
      ends.size = 4;
      pairs.clear();
    }

    @Override
    void addTo(Encoder.Body body) {
      addNode(body);
      pairs.addNode(body);
      pairs.key.addNode(body);
      pairs.value.addNode(body);
      addValidity(body);
      body.buffer(ends.bytes, ends.size);
      pairs.addTo(body);
    }
  }

  /** Headers of one record after the other. Its field nodes come with those of the lists. */
  private static final class Pairs extends GrowingColumn {
    final Strings key = new Strings();
    final Strings value = new Strings();

    void add(Header header) {
      count(header == null);
      key.add(header == null ? null : header.key());
      value.add(header == null ? null : header.value());
    }

    @Override
    public void clear() {
      super.clear();
      key.clear();
      value.clear();
    }

    @Override
    void addTo(Encoder.Body body) {
      addValidity(body);
      key.addBuffers(body);
      value.addBuffers(body);
    }
  }
}
