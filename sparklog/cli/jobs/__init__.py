"""Commands that run maintenance jobs, once or by a schedule."""
