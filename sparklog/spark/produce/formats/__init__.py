"""Rows of files, format by format, and the rows that can't be read. Read text_files.py first."""
