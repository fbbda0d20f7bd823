package io.sparklog;

import org.apache.spark.sql.vectorized.ColumnVector;

/** Some records: a vector for each column wanted, and the offset to read on from. */
record Records(ColumnVector[] columns, int count, long behind) {}
