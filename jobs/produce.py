"""Write a file, a directory or a table to a topic: spark-submit jobs/produce.py --cluster URL --topic T SOURCE …"""

from __future__ import annotations

import sys

from sparklog.cli.records.produce_files import main

if __name__ == "__main__":
    sys.exit(main())
