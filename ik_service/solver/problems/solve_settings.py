"""Size of one solve, with its options."""

from dataclasses import dataclass

from ik_service.solver.options import ATTEMPTS_MAX, SolverOptions
from objectives import InputError


@dataclass(frozen=True)
class SolveSettings:
    """Size of one solve, with its options.

    Attributes:
        problem_count: Number of problems.
        seeds: Seeds per problem.
        options: Options of this solve.
        checks_collision: Whether attempts are checked for collision.
    """

    problem_count: int
    seeds: int
    options: SolverOptions
    checks_collision: bool = False

    @property
    def runs_all_seeds(self) -> bool:
        """Whether seeds are run after the first success: all of them, or until there are solutions enough."""
        return self.options.runs_all_seeds

    def require_numbers(self) -> None:
        """Check that the attempts can be numbered.

        Raises:
            InputError: There are too many.
        """
        if self.problem_count * self.seeds > ATTEMPTS_MAX:
            attempts = f"{self.problem_count} problems x {self.seeds} seeds"
            raise InputError(f"{attempts} are more than {ATTEMPTS_MAX} attempts. Split the batch.")

    @property
    def float64_finish(self) -> bool:
        """Whether answers are improved in float64."""
        return self.options.precision == "float64"
