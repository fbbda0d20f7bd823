"""The produce job: writes files, directories and tables to topics, in one commit. Read produce_job.py first.

paths.py checks the path, and listed_files.py lists it on other systems; input_source.py chooses the reader; csv_rows.py
and json_rows.py read rows unchanged; rows.py turns them into records.
"""
