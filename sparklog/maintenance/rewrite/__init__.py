"""Jobs that rewrite segments: roll and compaction."""
