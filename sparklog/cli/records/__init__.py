"""Commands that write and print records."""
