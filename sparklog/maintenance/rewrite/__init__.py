"""Jobs that rewrite segments: roll and compaction. Read roll_job.py first, then compaction_job.py."""
