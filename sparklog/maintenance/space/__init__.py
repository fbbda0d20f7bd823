"""Jobs that free space: retention and vacuum. Read retention_job.py first."""
