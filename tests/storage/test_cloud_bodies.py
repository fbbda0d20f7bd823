"""The temporary file that holds a large body until it is sent."""

from __future__ import annotations

import subprocess
import sys

FORKING = """
import os, sys
from sparklog.storage.cloud.bodies import PIECE_BYTES, BufferedUpload
sent = []
upload = BufferedUpload("a", lambda key, body: sent.extend(body.pieces(PIECE_BYTES)))
upload.write(large := bytes(PIECE_BYTES + 1))  # from here on in a file
upload.write(b"before")
child = os.fork()
if not child:
    sys.exit()  # and so close what is open
assert os.waitpid(child, 0)[1] == 0
upload.write(b"after, and more")
upload.publish()
assert b"".join(sent) == large + b"beforeafter, and more"
"""


def test_a_process_forked_during_an_upload_adds_nothing_to_it() -> None:
    subprocess.run([sys.executable, "-c", FORKING], check=True, timeout=60)
