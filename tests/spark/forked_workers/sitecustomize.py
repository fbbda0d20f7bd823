"""Python runs this at its start: a daemon that forks Spark's Python workers first imports what each of them imports.

Spark's daemon imports nothing before it forks, and every read, write and commit of a Python data source begins with a
worker of its own: the imports are half of the processor time of a small test. Executors in processes of their own do
without, as users' do, and so do the programs of `test_installation.py` and `test_secrets.py`.
"""

from __future__ import annotations

import sys

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    import pyarrow.compute  # noqa: F401
    import pyspark.sql.worker.commit_data_source_write
    import pyspark.sql.worker.create_data_source
    import pyspark.sql.worker.lookup_data_sources
    import pyspark.sql.worker.plan_data_source_read
    import pyspark.sql.worker.write_into_data_source
    import pyspark.worker  # noqa: F401

    import pyspark_sparklog  # noqa: F401
