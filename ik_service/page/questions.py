"""Questions of the page and their answers: the only interface between the page and the solver or service."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.page.geometry import Body, visible_bodies
from ik_service.robots import RobotModel, builtin_robot_names, builtin_urdf, load_robot
from objectives.errors import IKError

ROTATIONS = ("rx", "ry", "rz")  # rotations about the axes of the tool, which a target may leave free


class PageError(IKError):
    """The page cannot be shown, or a question has no answer; the message is for people."""

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass  # whether the same question may be answered later: the service is busy, or not there


@dataclass(frozen=True, eq=False)
class AskedTarget:
    """Target of a link in each of n problems."""

    link: str  # name of the link
    positions: Float64Array  # in the world frame [m], shape [n, 3]
    orientations_xyzw: Float64Array  # in the world frame, shape [n, 4]
    free: tuple[str, ...] = ()  # free axes, of `ROTATIONS`; with all three the orientation does not count

    @property
    def turns_freely(self) -> bool:
        """True if the orientation does not count."""
        return len(self.free) == len(ROTATIONS)


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """A batch of n problems."""

    robot: str  # name of the robot
    targets: tuple[AskedTarget, ...]  # targets of its links
    # starts of the problems, shape [n, joint_coord_count]; None is the solver's own
    initial_joint_q: NDArray[Any] | None = None
    opened: tuple[str, ...] = ()  # names of disabled constraints
    options: Mapping[str, Any] = field(default_factory=dict)  # options by their names in an HTTP request
    objects: Mapping[str, Any] = field(default_factory=dict)  # obstacles, as `objects` of a world in an HTTP request

    @property
    def poses(self) -> tuple[list[Float64Array], list[Float64Array | None]]:
        """Positions and orientations of the targets, as `IKSolver.solve` takes them; None for a free orientation."""
        turns = [None if target.turns_freely else target.orientations_xyzw for target in self.targets]
        return [target.positions for target in self.targets], turns


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
    total_ms: float  # time from question to answer, measured by the page [ms]
    ran_on: str  # engine and device


@dataclass(frozen=True, eq=False, kw_only=True)
class Followed:
    """Joint motion along a path."""

    joint_q: Float64Array  # configurations at the waypoints [rad or m], shape [n, joint_coord_count]
    success: NDArray[np.bool_]  # whether each waypoint is met, with a contact-free motion to the waypoint, shape [n]
    is_fast: NDArray[np.bool_]  # whether a joint exceeds its speed limit on the way to the waypoint, shape [n]
    joint_change: float  # largest change of a joint from waypoint to waypoint [rad or m]
    solve_ms: float  # time of the computation [ms]


class Solving(ABC):
    """Answers questions about some robots; `address` is the address for the same questions over HTTP."""

    workers = 1  # threads that may call `solve` at a time
    compiling = ""  # notice of code in compilation for an answer; empty where there is none, or compilation is unknown

    def __init__(self, robots: Sequence[str], address: str) -> None:
        self.robots, self.address = tuple(robots), address
        self.files = dict[str, str]()  # of robots that are not built in, by name; these names are local to the page
        self._models, self._bodies = dict[str, RobotModel](), dict[str, Mapping[str, Sequence[Body]]]()

    def robot(self, name: str) -> RobotModel:
        """Return the model of a robot for drawing; PageError for an unknown name."""
        if name not in self._models:
            if name not in self.robots:
                raise PageError(f"There is no robot '{name}' here. Robots: {', '.join(self.robots)}.")
            self._models[name] = load_robot(name)
        return self._models[name]

    def bodies(self, name: str) -> Mapping[str, Sequence[Body]]:
        """Return the bodies of links to be drawn, by name, for links with bodies here."""
        if name not in self._bodies and name in builtin_robot_names():
            self._bodies[name] = visible_bodies(builtin_urdf(name))
        return self._bodies.get(name, {})

    @abstractmethod
    def add_robot(self, name: str, text: bytes) -> str:
        """Add an uploaded URDF; return its name from now on. PageError if the text is not a valid URDF."""

    @abstractmethod
    def solve(self, question: Question) -> Answer:
        """Answer a question; PageError if there is no answer."""

    @abstractmethod
    def follow(self, question: Question, dt: float) -> Followed:
        """Return a joint motion through the problems of a question, waypoints `dt` [s] apart, from its one start.

        PageError if there is no answer.
        """

    @abstractmethod
    def close(self) -> None:
        """Release solvers and connections."""


def read_answer(result: Any, names: Sequence[str], **own: Any) -> Answer:
    """Return an answer from a result of a solver or of the client; `own` are the fields that differ between both.

    `names` are those of the indices in `closest`.
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
        closest=None if closest is None or closest[0, 0] < 0 else (names[closest[0, 0]], names[closest[0, 1]]),
        **found,
        **own,
    )
