"""Commands that write and print records. Read consume.py and produce.py first."""
