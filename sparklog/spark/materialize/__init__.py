"""The materialize job: copies the records of a topic into a Delta table, each once. Read materialize_job.py first.

position.py is the position that the table stores; steps.py decides which records the next commit adds; columns.py turns
records into rows; delta_table.py is the only file that talks to Delta Lake.
"""
