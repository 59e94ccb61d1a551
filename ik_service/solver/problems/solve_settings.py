"""Size of one solve, with its options."""

from dataclasses import dataclass

from ik_service.solver.options import SolverOptions


@dataclass(frozen=True)
class SolveSettings:
    """Size of one solve, with its options.

    Attributes:
        problem_count: Number of problems.
        seeds: Seeds per problem.
        options: Options of this solve.
    """

    problem_count: int
    seeds: int
    options: SolverOptions

    @property
    def runs_all_seeds(self) -> bool:
        """Whether all seeds are run, and not only those before the first success."""
        return self.options.runs_all_seeds

    @property
    def float64_finish(self) -> bool:
        """Whether answers are improved in float64."""
        return self.options.precision == "float64"
