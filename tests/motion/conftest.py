"""Fixtures of tests of motion: those of the solver."""

from tests.solver.conftest import small_parts, threads  # noqa: F401  # pytest finds fixtures by their names here
