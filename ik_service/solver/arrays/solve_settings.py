"""Size of one solve, with its options."""

from typing import NamedTuple

from ik_service.solver.given.options import ATTEMPTS_MAX, SolverOptions
from objectives import InputError


class SolveSettings(NamedTuple):
    """Size of one solve, with its options; made by `of`."""

    problem_count: int
    seeds: int  # seeds per problem
    options: SolverOptions
    checks_collision: bool  # whether attempts are checked for collision
    # whether seeds are run after the first success: all of them, or until there are solutions enough
    runs_all_seeds: bool
    float64_finish: bool  # whether answers are improved in float64

    @classmethod
    def of(cls, problem_count: int, seeds: int, options: SolverOptions, *, checks_collision: bool) -> "SolveSettings":
        """Return the settings of a solve."""
        float64 = options.precision == "float64"
        return cls(problem_count, seeds, options, checks_collision, options.runs_all_seeds, float64)

    def require_numbers(self) -> None:
        """Check that the attempts can be numbered; InputError where there are too many."""
        if self.problem_count * self.seeds > ATTEMPTS_MAX:
            attempts = f"{self.problem_count} problems x {self.seeds} seeds"
            raise InputError(f"{attempts} are more than {ATTEMPTS_MAX} attempts. Split the batch.")
