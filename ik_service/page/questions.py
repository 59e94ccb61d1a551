"""Questions of the page and their answers: the only interface between the page and the solver or service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.client import SolveTarget
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import IKError

ROTATIONS = ("rx", "ry", "rz")  # rotations about the axes of the tool, which a target may leave free


class PageError(IKError):
    """The page cannot be shown, or a question has no answer; the message is for people."""

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass  # whether the same question may be answered later: the service is busy, or not there


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """A batch of n problems."""

    robot: str  # name of the robot
    targets: tuple[SolveTarget, ...]  # targets of its links
    # starts of the problems, shape [n, joint_coord_count]; None is the solver's own
    initial_joint_q: NDArray[Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # options by their names in an HTTP request
    objects: Mapping[str, Any] = field(default_factory=dict)  # obstacles, as `objects` of a world in an HTTP request

    @property
    def fields(self) -> dict[str, Any]:
        """Start, options and world, by their names in an HTTP request."""
        world = {"objects": dict(self.objects)} if self.objects else None
        return {"initial_joint_q": self.initial_joint_q, "options": dict(self.options), "world": world}

    @property
    def poses(self) -> tuple[list[Any], list[Any]]:
        """Positions and orientations of the targets, as `IKSolver.solve` takes them; None for a free orientation."""
        return [target.positions for target in self.targets], [target.orientations_xyzw for target in self.targets]


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """The answers to n problems."""

    joint_q: NDArray[Any]  # configurations [rad or m], shape [n, joint_coord_count]
    success: NDArray[np.bool_]  # whether every target is met, shape [n]
    status: tuple[str, ...]  # how each problem ended, such as "converged"
    position_error: Float64Array  # [m], shape [n, targets]; NaN where the position does not count
    orientation_error: Float64Array  # [rad], shape [n, targets]; NaN where the orientation does not count
    iterations: NDArray[Any]  # shape [n]
    advice: str  # advice for the first problem, in words
    proof: NDArray[Any]  # proof that a target cannot be met, 0 for none, shape [n]
    closest: tuple[str, str] | None  # closest pair in the first problem; None where collision is not checked
    clearance: Float64Array  # distance of the closest pair [m], shape [n]; inf where no contact is possible
    solutions: NDArray[Any]  # distinct solutions of the first problem, shape [k, joint_coord_count]
    branches: NDArray[Any]  # branch of each of these solutions, -1 where unknown, shape [k]
    is_complete: bool  # whether these solutions are proven to be all, modulo turns
    solve_ms: float  # time of the solve [ms]
    ran_on: str  # engine and device


def read_answer(result: Any, names: Sequence[str], clearance: Any, **own: Any) -> Answer:
    """Return an answer from a result of a solver or of the client; `own` are the fields with different values in both.

    `names` are the names of the indices in `closest`; the clearance is None where collision is not checked.
    """
    closest, found = result.closest, {"solutions": result.joint_q[:1], "branches": np.array([-1]), "is_complete": False}
    if result.solutions is not None:
        count = int(result.solution_count[0])
        found["solutions"], found["branches"] = result.solutions[0, :count], np.asarray(result.branch[0, :count])
        found["is_complete"] = bool(result.complete[0])
    return Answer(
        joint_q=result.joint_q,
        success=result.success,
        iterations=result.iterations,
        proof=np.zeros(len(result), np.int32) if result.proof is None else result.proof,
        clearance=np.full(len(result), np.inf) if clearance is None else clearance,
        closest=None if closest is None or closest[0, 0] < 0 else (names[closest[0, 0]], names[closest[0, 1]]),
        **found,
        **own,
    )
