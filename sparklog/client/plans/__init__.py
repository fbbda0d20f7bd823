"""Plans of reads, streams and writes, and each task's part of a write."""
