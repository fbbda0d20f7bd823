"""One job in a process of its own: python -m sparklog.maintenance.job_child JOB CLUSTER REPORT.

If SETTINGS_ON_STDIN is in the environment, the parent process first writes one line to stdin: the settings with which
the job reaches the cluster, as JSON of `StorageSettings`. A token among arguments could be read by others. Without it,
for example if a user's own command wraps this one, the job uses its own settings. The parent keeps its end of stdin
open. When that end is closed, this process ends at once. So no job continues after its scheduler was killed. Being
killed is safe for a job at any point (`job_frame.py`).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from sparklog.client.error_line import print_failure, unforeseen
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import SparklogError
from sparklog.maintenance.job_report_file import write_report
from sparklog.maintenance.jobs import job_named

ABANDONED = 3  # exit code: the parent process is gone
SETTINGS_ON_STDIN = "SPARKLOG_JOB_SETTINGS_ON_STDIN"


def main(arguments: Sequence[str]) -> int:
    """Run the job and write its report. Return the exit code.

    It is 0 if all of the job was done, and 1 if a part failed, or if an error ended the job.
    """
    job, cluster, report_file = arguments
    announced = SETTINGS_ON_STDIN in os.environ
    settings = msgspec.json.decode(_first_line(), type=StorageSettings) if announced else StorageSettings()
    threading.Thread(target=_end_when_abandoned, daemon=True).start()
    try:
        report = job_named(job)(cluster, settings=settings)
        write_report(report, report_file)
    except SparklogError as error:
        print_failure(str(error))
        return 1
    except Exception as error:
        print_failure(unforeseen(error, str(error)))
        return 1
    return report.exit_code


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += _read()
    return line


def _end_when_abandoned() -> None:
    while True:
        _read()


def _read() -> bytes:
    """Return the next byte of stdin. If there is none, the parent process is gone: end this process at once."""
    read = os.read(0, 1)
    if not read:
        with suppress(OSError):
            os.write(2, b"stdin has ended: the process that began this job is gone\n")
        os._exit(ABANDONED)
    return read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
