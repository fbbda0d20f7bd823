"""`python -m sparklog`: the command line."""

from sparklog.cli.main import entry_point

entry_point()
