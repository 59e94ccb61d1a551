"""Questions of the page and their answers: the one interface between the page and whatever solves."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import RobotModel, load_robot
from ik_service.robots.readers.mesh_file import Mesh
from objectives.errors import IKError

Float64Array = NDArray[np.float64]
ROTATIONS = ("rx", "ry", "rz")
"""Rotations about the axes of the tool, which a target may leave free."""


class PageError(IKError):
    """The page cannot be shown, or a question has no answer; the message is for people.

    Attributes:
        may_pass: Whether the same question may be answered later: the service is busy, or not there.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


@dataclass(frozen=True, eq=False)
class AskedTarget:
    """Target of a link in each of n problems.

    Attributes:
        link: Name of the link.
        positions: In the world frame [m], shape [n, 3].
        orientations_xyzw: In the world frame, shape [n, 4].
        free: Those of `ROTATIONS` that are free; with all of them the orientation does not count.
    """

    link: str
    positions: Float64Array
    orientations_xyzw: Float64Array
    free: tuple[str, ...] = ()

    @property
    def turns_freely(self) -> bool:
        """True if the orientation does not count."""
        return len(self.free) == len(ROTATIONS)


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """A batch of n problems.

    Attributes:
        robot: Name of the robot.
        targets: What its links are to reach.
        initial_joint_q: Starts of the problems, shape [n, joint_coord_count]; None is the solver's own.
        frozen: Names of DOFs that stay where the start has them.
        opened: Names of constraints that are not to be met.
        options: Options by the names that they have in an HTTP request.
        objects: What is around the robot, as `objects` of a world in an HTTP request.
    """

    robot: str
    targets: tuple[AskedTarget, ...]
    initial_joint_q: NDArray[Any] | None = None
    frozen: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    objects: Mapping[str, Any] = field(default_factory=dict)

    @property
    def poses(self) -> tuple[list[Float64Array], list[Float64Array | None]]:
        """Positions and orientations of the targets, as `IKSolver.solve` takes them; None for one that turns freely."""
        turns = [None if target.turns_freely else target.orientations_xyzw for target in self.targets]
        return [target.positions for target in self.targets], turns

    @property
    def kind(self) -> tuple[object, ...]:
        """Key of the code that it may need: robot, targets and free axes, loops, starts, options, shapes around it."""
        targets = tuple((target.link, target.free) for target in self.targets)
        objects = tuple(sorted({str(one.get("shape")) for one in self.objects.values()}))
        options = tuple(sorted((name, str(value)) for name, value in self.options.items()))
        return self.robot, targets, self.opened, self.initial_joint_q is None, bool(self.frozen), options, objects


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """The answers to n problems.

    Attributes:
        joint_q: Configurations [rad or m], shape [n, joint_coord_count].
        success: Whether every target is met, shape [n].
        status: How each problem ended, such as "converged".
        position_error: [m], shape [n, targets]; NaN where the position does not count.
        orientation_error: [rad], shape [n, targets]; NaN where the orientation does not count.
        iterations: Shape [n].
        active_limits: DOFs at a limit, shape [n, joint_dof_count].
        advice: What to do about the first problem, in words.
        closest: The two that are closest in the first problem; None where collision is not checked.
        clearance: How far the two that are closest are apart [m], shape [n]; inf where nothing can touch.
        solutions: Distinct solutions of the first problem, shape [k, joint_coord_count].
        solve_ms: Time of the solve [ms].
        total_ms: Time from question to answer, as the page has seen it [ms].
        ran_on: Engine and device.
    """

    joint_q: NDArray[Any]
    success: NDArray[np.bool_]
    status: tuple[str, ...]
    position_error: Float64Array
    orientation_error: Float64Array
    iterations: NDArray[Any]
    active_limits: NDArray[np.bool_]
    advice: str
    closest: tuple[str, str] | None
    clearance: Float64Array
    solutions: NDArray[Any]
    solve_ms: float
    total_ms: float
    ran_on: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Followed:
    """The joints along a path.

    Attributes:
        joint_q: Configurations at the waypoints [rad or m], shape [n, joint_coord_count].
        success: Whether each waypoint is met, the way there free of contact, shape [n].
        is_fast: Whether a joint would go faster there from the waypoint before than it may, shape [n].
        joint_change: Largest change of a joint from waypoint to waypoint [rad or m].
        solve_ms: Time that it took [ms].
    """

    joint_q: Float64Array
    success: NDArray[np.bool_]
    is_fast: NDArray[np.bool_]
    joint_change: float
    solve_ms: float


class Solving(ABC):
    """Answers questions about some robots; one thread at a time asks `solve` of one that has `workers` = 1.

    Args:
        robots: Names of the robots.
        address: Where the same questions can be asked over HTTP.

    Attributes:
        workers: Threads that may ask at a time.
        files: Files of robots that are not built in, by name: nobody else knows them by that name.
        compiling: Notice of the code that is being compiled for an answer; empty where none is, or nobody tells.
    """

    workers = 1
    compiling = ""

    def __init__(self, robots: Sequence[str], address: str) -> None:
        self.robots, self.address, self.files = tuple(robots), address, dict[str, str]()
        self._models = dict[str, RobotModel]()

    def robot(self, name: str) -> RobotModel:
        """Return the model of a robot, to draw it; PageError where there is none of that name."""
        if name not in self._models:
            if name not in self.robots:
                raise PageError(f"There is no robot '{name}' here. Robots: {', '.join(self.robots)}.")
            self._models[name] = load_robot(name)
        return self._models[name]

    def meshes(self, name: str) -> Mapping[str, Sequence[Mesh]]:
        """Return what links of a robot look like, in their frames, by the names of those that have meshes here."""
        return {}

    @abstractmethod
    def add_robot(self, name: str, text: bytes) -> str:
        """Take a URDF that a visitor brings; return the name that it has from now on. PageError where it is none."""

    @abstractmethod
    def solve(self, question: Question) -> Answer:
        """Answer a question; PageError where it cannot be answered."""

    @abstractmethod
    def follow(self, question: Question, dt: float) -> Followed:
        """Return joints that go through the problems of a question, waypoints `dt` [s] apart, from its one start.

        PageError where it cannot be answered.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds."""


def named_pair(closest: NDArray[Any] | None, names: Sequence[str]) -> tuple[str, str] | None:
    """Return the two that are closest in the first problem, by their numbers, shape [n, 2]; None for nothing."""
    if closest is None or closest[0, 0] < 0:
        return None
    first, second = closest[0].tolist()
    return names[first], names[second]


def found_solutions(result: Any) -> NDArray[Any]:
    """Return the distinct solutions of the first problem of a result, shape [k, joint_coord_count]."""
    if result.solutions is None:
        return np.asarray(result.joint_q[:1])
    return np.asarray(result.solutions[0, : int(result.solution_count[0])])
