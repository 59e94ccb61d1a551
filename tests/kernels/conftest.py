"""Fixtures of tests of compiled kernels: those of the solver."""

from tests.solver.conftest import panda, panda_targets, threads  # noqa: F401  # pytest finds fixtures by their names here
