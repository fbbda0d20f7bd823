package io.sparklog;

/** A batch of one partition as an Arrow message. Both timestamps are inclusive. */
record EncodedBatch(int partition, byte[] message, int records, long minTimestampUs, long maxTimestampUs) {}
