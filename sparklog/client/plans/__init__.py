"""Plans of reads, streams and writes, and the part of a write that each task does."""
