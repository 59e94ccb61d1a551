"""A build: the kernels that one kind of request needs, compiled step by step."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ik_service.robots import RobotModel
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.solve_request import SolveRequest


class BuildEnd(Enum):
    """The end of a build."""

    COMPILED = "the kernels are compiled, or the solver refuses the request itself"
    ABANDONED = "no request waited for it, or a step took too long"
    FAILED = "the code cannot be compiled, or the process dies of it"
    NOT_KEPT = "the kernel cache cannot be written"


@dataclass(eq=False)
class Build:
    """Kernels to compile.

    Attributes:
        robot: The robot.
        sample: The smallest request that needs them: one problem for each pattern of active rows.
        mark: The file that says that they are compiled.
        owner: Owner of the first request for them.
        on_end: Called with the way it ended.
        owners: Returns the owners of requests that still wait for them.
        made: Finished steps.
        deaths: Processes that have died while they compiled it.
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
        """Steps that are left: one for each pattern and, where there are several, one for all patterns together."""
        patterns = self.sample.problem_count
        return (patterns + 1 if patterns > 1 else 1) - self.made

    def step(self) -> SolveRequest:
        """Return the request that compiles the kernels of the next step."""
        return self.sample if self.left == 1 else self.sample.part(slice(self.made, self.made + 1))
