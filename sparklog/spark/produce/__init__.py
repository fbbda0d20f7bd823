"""The produce job: files, directories and tables into topics, in one commit. Read job.py first.

source.py chooses the reader; csv_rows.py and json_rows.py read rows as they stand in the file, rows.py makes records.
"""
