"""The process that compiles does not outlive the one that started it."""

import signal
import subprocess
import sys

PROGRAM = """
import multiprocessing, os, signal
from concurrent.futures import ProcessPoolExecutor
from ik_service.batching.kernel_builder import end_with_parent

pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=end_with_parent)
print(pool.submit(os.getpid).result(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_its_parent_however_that_ends():
    # The output is complete only once the last process that may write to it has ended.
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    assert int(ended.stdout) > 0
