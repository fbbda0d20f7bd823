"""A scheduled job that stops in the middle, if it is the one to be held: everything is uploaded, nothing is committed.

Arguments: PORT HELD JOB CLUSTER REPORT. It calls the test at that port, and goes on when it is answered, or when the
test no longer listens there. The connection ends with this process, so the test sees that.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence

from sparklog.core.commands import Submission
from sparklog.core.errors import SparklogError
from sparklog.core.records import CommandResult
from sparklog.maintenance import job_child
from sparklog.maintenance.job_frame import JobFrame


def hold_at(port: int) -> None:
    submit_all = JobFrame.submit_all

    def held(self: JobFrame, submissions: Sequence[Submission]) -> list[CommandResult | SparklogError]:
        try:
            with socket.create_connection(("127.0.0.1", port)) as test:
                test.recv(1)
        except ConnectionError:
            pass  # nobody holds it any more
        return submit_all(self, submissions)

    JobFrame.submit_all = held  # type: ignore[method-assign]


if __name__ == "__main__":
    port, held, *arguments = sys.argv[1:]
    if arguments[0] == held:
        hold_at(int(port))
    sys.exit(job_child.main(arguments))
