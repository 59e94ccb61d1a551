"""The process that compiles does not outlive its parent."""

import signal
import subprocess
import sys

PROGRAM = """
import os, signal
from contextlib import suppress
from ik_service.service.pool.builder_process import BuilderProcess, BuildFailedError

process = BuilderProcess("cpu")
process.begin(None, None, None)
with suppress(BuildFailedError):
    assert process.is_finished(100)
print(process._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_its_parent_however_that_ends():
    # The output is complete only once the last process that may write to it has ended.
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    assert int(ended.stdout.splitlines()[-1]) > 0
