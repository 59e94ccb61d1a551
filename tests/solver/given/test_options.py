"""Options: what their hash says, here and in another process."""

import os
import pickle
import subprocess
import sys

import pytest

from ik_service import SolverOptions
from ik_service.solver.arrays.problem_arrays import SolveSettings
from objectives import InputError

LOOK = """
import pickle, sys
from ik_service import SolverOptions
print({pickle.load(sys.stdin.buffer): "found"}[SolverOptions(best_of="nearest")])
"""


def test_equal_options_have_equal_hashes_here_and_in_processes_whose_texts_have_others():
    kept = {SolverOptions(seeds=3, best_of="cost"): "cost", SolverOptions(seeds=3): "first"}
    assert (kept[SolverOptions(best_of="cost", seeds=3)], kept[SolverOptions(seeds=3)]) == ("cost", "first")
    assert SolverOptions(seeds=4) not in kept
    options = SolverOptions(best_of="nearest")
    assert hash(options) == hash(SolverOptions(best_of="nearest"))
    for seed in ("1", "2"):
        given = {"input": pickle.dumps(options), "env": {**os.environ, "PYTHONHASHSEED": seed}, "timeout": 60}
        told = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, check=True, **given)
        assert told.stdout.split() == [b"found"]


def test_attempts_that_have_no_number_in_32_bits_are_refused():
    SolveSettings.of(2**21 - 1, 1024, SolverOptions(), checks_collision=False).require_numbers()
    with pytest.raises(InputError, match=r"2097152 problems x 1024 seeds are more than 2147483647 attempts"):
        SolveSettings.of(2**21, 1024, SolverOptions(), checks_collision=False).require_numbers()
