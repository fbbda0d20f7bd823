"""The materialize job: copy the records of a topic into a Delta table, each of them once. Read job.py first.

position.py is what the table remembers; steps.py decides what the next commit adds; columns.py turns records into rows;
delta_table.py is the only file that talks to Delta Lake.
"""
