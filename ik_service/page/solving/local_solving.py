"""Answers from solvers in this process."""

import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from ik_service.page.solving.questions import Answer, AskedTarget, PageError, Question
from ik_service.robots import RobotModel, World, builtin_robot_names, load_robot
from ik_service.robots.files.geometry.world_file import read_world
from ik_service.solver import IKResult, IKSolver, Target
from ik_service.solver.results.advice import advice
from objectives.errors import IKError

SOLVERS_MOST = 16
"""Solvers that are kept: one for each robot and choice of free axes."""


class LocalSolving:
    """Solvers of this process, made when they are first asked.

    Args:
        device: "auto", or a Warp device.
        robot_file: A robot beside the built-in ones: a path to a URDF or MJCF file; None for none.
    """

    workers = 1
    address = "http://127.0.0.1:8000"

    def __init__(self, device: str = "auto", robot_file: str | None = None) -> None:
        self._device, self._models = device, dict[str, RobotModel]()
        self._names = builtin_robot_names()
        if robot_file is not None:
            name = Path(robot_file).stem
            self._models[name] = load_robot(robot_file)
            self._names = (name, *(other for other in self._names if other != name))
        self._solvers: OrderedDict[tuple[object, ...], IKSolver] = OrderedDict()

    @property
    def robots(self) -> tuple[str, ...]:
        """Names of the robots."""
        return tuple(self._names)

    def robot(self, name: str) -> RobotModel:
        """Return the model of a robot.

        Raises:
            PageError: There is none of that name.
        """
        if name not in self._models:
            if name not in self._names:
                raise PageError(f"There is no robot '{name}'. Robots: {', '.join(self._names)}.")
            self._models[name] = load_robot(name)
        return self._models[name]

    def solve(self, question: Question) -> Answer:
        """Answer a question.

        Raises:
            PageError: A value is not allowed, or kernels cannot be compiled.
        """
        begun = time.perf_counter()
        try:
            solver = self._solver(question)
            world = read_world({"objects": dict(question.objects)}) if question.objects else None
            asked = time.perf_counter()
            result = solver.solve(
                [target.positions for target in question.targets],
                [None if target.turns_freely else target.orientations_xyzw for target in question.targets],
                initial_joint_q=question.initial_joint_q,
                frozen=question.frozen or None,
                world=world,
                options=dict(question.options),
            )
            solve_ms = 1e3 * (time.perf_counter() - asked)
            return _answer(solver, result, world, question.options, solve_ms, begun)
        except IKError as error:
            raise PageError(str(error)) from error

    def close(self) -> None:
        """Forget the solvers."""
        self._solvers.clear()

    def _solver(self, question: Question) -> IKSolver:
        key = (question.robot, *((target.link, target.free) for target in question.targets))
        if key not in self._solvers:
            robot = self.robot(question.robot)
            self._solvers[key] = IKSolver(robot, [_declared(one) for one in question.targets], device=self._device)
            while len(self._solvers) > SOLVERS_MOST:
                self._solvers.popitem(last=False)
        self._solvers.move_to_end(key)
        return self._solvers[key]


def _declared(target: AskedTarget) -> Target:
    return Target(target.link, free=() if target.turns_freely else target.free)


def _answer(
    solver: IKSolver, result: IKResult, world: World | None, options: Any, solve_ms: float, begun: float
) -> Answer:
    names: tuple[str, ...] = ()
    closest, clearance = None, np.inf
    if result.closest is not None and result.clearance is not None and solver.robot.body_spheres is not None:
        names = solver.robot.body_spheres.links + (() if world is None else world.names)
        first, second = result.closest[0].tolist()
        closest = (names[first], names[second]) if first >= 0 else None
        clearance = float(result.clearance[0])
    chosen = solver.options.of_solve(dict(options))
    words = advice(solver.robot, solver.targets, chosen, result, result.islands, problem=0, collision_names=names)
    found = 0 if result.solution_count is None else int(result.solution_count[0])
    return Answer(
        joint_q=result.joint_q,
        success=result.success,
        status=tuple(result.status_names),
        position_error=result.position_error,
        orientation_error=result.orientation_error,
        iterations=result.iterations,
        active_limits=result.active_limits,
        advice=words,
        closest=closest,
        clearance=clearance,
        solutions=result.joint_q[:1] if result.solutions is None else result.solutions[0, :found],
        solve_ms=solve_ms,
        total_ms=1e3 * (time.perf_counter() - begun),
        ran_on=f"{result.engine} engine on {result.device}",
    )
