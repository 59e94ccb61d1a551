"""Whoever waits for a compiler is told: in the log, or on standard error where no log is kept."""

import re

from tests.kernels.cache_processes import COUNT

BEGINS = "Compiling code for 'panda' (panda_hand); later runs find it."
TELLS = """
import logging
told = []
class Notes(logging.Handler):
    def emit(self, record):
        told.append(record.getMessage())
logging.getLogger("ik_service").addHandler(Notes())
logging.getLogger("ik_service").setLevel(logging.INFO)
solve()
first = len(told)
solve()
report(told=told, first=first)
"""


def test_a_solve_tells_that_it_compiles_and_how_long_that_took_the_last_time(run, tmp_path):
    found = run(TELLS, tmp_path)
    assert found["first"] == len(found["told"]) == 2
    assert found["told"][0] == BEGINS
    assert re.fullmatch(r"Compiled in \d+\.\d s\.", found["told"][1])
    assert run(TELLS, tmp_path)["told"] == []
    for path in tmp_path.glob("*/wp_*/*.o"):
        path.unlink()
    took = found["told"][1].removeprefix("Compiled in ")
    assert run(TELLS, tmp_path)["told"][0].endswith(f" Last time it took {took}")


WHO_ASKS = """
from ik_service.kernels.kernel_loading import KernelsFor
told = []
with KernelsFor(tell=told.append):
    solve()
    first = len(told)
    solve()
report(told=told, first=first)
"""


def test_who_asks_is_told_when_compiling_begins_and_when_it_ends(run, tmp_path):
    assert run(WHO_ASKS, tmp_path) == {"told": [BEGINS, ""], "first": 2}


NO_LOG = """
import io, sys, time
from ik_service.kernels import kernel_loading
compiles = kernel_loading.CachedModule.compile

def slowly(module):
    compiles(module)
    while os.environ["SEEN"] and not sys.stderr.getvalue():  # until somebody is told, however fast it is
        time.sleep(0.01)

kernel_loading.CachedModule.compile = slowly
sys.stderr = io.StringIO()
solve()
first = sys.stderr.getvalue()
solve()
report(first=first.splitlines(), later=sys.stderr.getvalue()[len(first):])
"""


def test_where_no_log_is_kept_it_is_said_on_standard_error_unless_silenced(run, tmp_path):
    found = run(NO_LOG, tmp_path, SEEN="yes")
    assert found["first"][0] == f"ik-service: {BEGINS}"
    assert re.fullmatch(r"ik-service: Compiled in \d+\.\d s\.", found["first"][1])
    assert found["later"] == ""
    assert run(NO_LOG, tmp_path / "new", SEEN="", IK_SERVICE_QUIET="1") == {"first": [], "later": ""}


DEAF = """
import sys

class Deaf:
    def write(self, text):
        raise BrokenPipeError("nobody reads")
    def flush(self):
        pass

from ik_service.kernels import kernel_loading
kernel_loading.NOTICE_S = 0.0
sys.stderr = Deaf()
compiled, result = counted(solve)
report(compiled=compiled, solved=int(result.success.sum()))
"""


def test_a_notice_that_cannot_be_written_spoils_no_solve(run, tmp_path):
    assert run(DEAF, tmp_path) == {"compiled": 4, "solved": COUNT}
