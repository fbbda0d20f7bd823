"""Commands that run maintenance jobs, once or on a schedule."""
