"""Writes, in batches and in micro-batches. Each write is one command, submitted by the driver.

Read batch_writer.py first.
"""
