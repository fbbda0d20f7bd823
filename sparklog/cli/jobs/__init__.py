"""Commands that run maintenance jobs, once or on a schedule. Read job_verbs.py first, then job_run.py."""
