package io.sparklog;

/** The offsets [start, end) and the columns that a reader wants. */
record ReadRange(long start, long end, String[] columns) {}
