"""Reads of records and of metadata tables, in batches and in micro-batches."""
