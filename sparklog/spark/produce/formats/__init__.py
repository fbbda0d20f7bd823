"""Rows of files, format by format, and the rows that can't be read."""
