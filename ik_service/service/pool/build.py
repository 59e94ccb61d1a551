"""Build of the kernels for one kind of request, compiled step by step."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ik_service.robots import RobotModel
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.solve_request import SolveRequest


class BuildEnd(Enum):
    """Outcome of a build."""

    COMPILED = "the kernels are compiled, or the solver refuses the request itself"
    ABANDONED = "no request waited for it, or a step took too long"
    FAILED = "the code cannot be compiled, or the process dies of it"
    NOT_KEPT = "the kernel cache cannot be written"


@dataclass(eq=False)
class Build:
    """Kernels to compile.

    Attributes:
        robot: The robot.
        sample: Smallest request for all these kernels: one problem per pattern of active rows.
        mark: File that marks the kernels as compiled.
        owner: Owner of the first request for the kernels.
        on_end: Called with the outcome.
        owners: Returns the owners of requests still waiting for the kernels.
        made: Number of finished steps.
        deaths: Number of processes that died during this build.
    """

    robot: RobotModel
    sample: SolveRequest
    mark: Path
    owner: Owner
    on_end: Callable[[BuildEnd], None]
    owners: Callable[[], Collection[Owner]]
    made: int = 0
    deaths: int = 0

    @property
    def left(self) -> int:
        """Number of steps left: one per pattern and, for several patterns, one with all patterns together."""
        patterns = self.sample.problem_count
        return (patterns + 1 if patterns > 1 else 1) - self.made

    def step(self) -> SolveRequest:
        """Return the request for the kernels of the next step."""
        return self.sample if self.left == 1 else self.sample.part(slice(self.made, self.made + 1))
