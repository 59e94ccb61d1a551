"""Answers from solvers in this process."""

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ik_service.ik_solver import IKSolver
from ik_service.kernels.kernel_loading import KernelsFor
from ik_service.page.geometry import Body, visible_bodies
from ik_service.page.questions import Answer, PageError, Question, read_answer
from ik_service.robots import RobotModel, builtin_robot_names, builtin_urdf, load_robot
from ik_service.robots.readers.world_file import read_world
from ik_service.solver.given.targets import Target
from objectives.errors import IKError

SOLVERS_MOST = 16  # solvers that are kept: one for each robot and choice of free axes
BROUGHT_BYTES, BROUGHT_MOST = 1_000_000, 32  # largest file of a robot that a visitor brings, and how many are kept


class LocalSolving:
    """Answers questions about robots by solvers of this process, made at the first question.

    A URDF or MJCF file is a robot beside the built-in ones.
    """

    workers = 1  # threads calling `solve` at a time
    compiling = ""  # notice of code in compilation for an answer; empty where there is none, or compilation is unknown
    address = "http://127.0.0.1:8000"  # of a service for the same questions over HTTP

    def __init__(self, device: str = "auto", robot_file: str | None = None) -> None:
        self.robots = builtin_robot_names()
        self.files = dict[str, str]()  # of uploaded robots, the oldest first, by names of the page
        self._device, self._lock = device, threading.RLock()
        self._models = dict[str, RobotModel]()
        self.bodies = dict[str, Mapping[str, Sequence[Body]]]()  # of drawn links, by names of robots from `robot`
        self._solvers: OrderedDict[tuple[object, ...], IKSolver] = OrderedDict()
        if robot_file is not None:
            name = Path(robot_file).stem
            self._models[name], path = load_robot(robot_file), Path(robot_file)
            self.bodies[name] = visible_bodies(path.read_bytes(), path) if path.suffix == ".urdf" else {}
            self.files[name] = robot_file
            self.robots = (name, *(other for other in self.robots if other != name))

    def robot(self, name: str) -> RobotModel:
        """Return the model of a robot for drawing; PageError for an unknown name."""
        if name not in self._models:
            if name not in self.robots:
                raise PageError(f"There is no robot '{name}' here. Robots: {', '.join(self.robots)}.")
            self._models[name], self.bodies[name] = load_robot(name), visible_bodies(builtin_urdf(name))
        return self._models[name]

    def add_robot(self, name: str, text: bytes) -> str:
        """Keep an uploaded URDF, as one of the last `BROUGHT_MOST`; return its name from now on.

        PageError if the text is too long or not a valid URDF.
        """
        if len(text) > BROUGHT_BYTES:
            raise PageError(f"'{name}' has {len(text)} bytes. Allowed: {BROUGHT_BYTES}.")
        try:
            from ik_service.service.catalog.robot_catalog import read_uploaded  # here: imports the service

            model = read_uploaded(text)
        except IKError as error:
            raise PageError(f"'{name}' cannot be shown: {error}") from error
        file, name = name, f"{Path(name).stem[:40]} {model.content_hash[:6]}"
        with self._lock:
            self.files.pop(name, None)
            self._models[name], self.files[name], self.bodies[name] = model, file, visible_bodies(text)
            for old in [one for one in self.files if one not in self.robots][:-BROUGHT_MOST]:
                del self._models[old], self.files[old], self.bodies[old]
        return name

    def solve(self, question: Question) -> Answer:
        """Answer a question; PageError where a value is not allowed, or kernels cannot be compiled."""
        with self._explained():
            self._solver(question)  # loads code, which is no part of the time
            begun = time.perf_counter()
            result = self.call(IKSolver.solve, question, initial_joint_q=question.initial_joint_q)
            took_ms = 1e3 * (time.perf_counter() - begun)
            return read_answer(
                result,
                result.collision_names(0),
                result.clearance,
                status=tuple(result.status_names),
                position_error=result.position_error,
                orientation_error=result.orientation_error,
                advice=result.advice_on(0),
                solve_ms=took_ms,
                ran_on=f"{result.engine} engine on {result.device}",
            )

    def call(self, method: Callable[..., Any], question: Question, **given: Any) -> Any:
        """Return the result of a method of `IKSolver` for the problems of a question; errors as of `solve`."""
        with self._explained():
            world = question.fields["world"]
            given |= {"world": world and read_world(world), "options": dict(question.options)}
            return method(self._solver(question), *question.poses, **given)

    def close(self) -> None:
        """Forget the solvers."""
        self._solvers.clear()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Solve alone in this context, with `compiling` up to date; turn an error into a message for the visitor."""
        try:
            with self._lock, KernelsFor(tell=partial(setattr, self, "compiling")):
                yield
        except IKError as error:
            raise PageError(str(error)) from error

    def _solver(self, question: Question) -> IKSolver:
        key = (question.robot, *((target.link, target.free) for target in question.targets))
        if key not in self._solvers:
            targets = [Target(one.link, free=one.free) for one in question.targets]
            self._solvers[key] = IKSolver(self.robot(question.robot), targets, device=self._device)
            self.call(IKSolver.solve, question, initial_joint_q=question.initial_joint_q)
            while len(self._solvers) > SOLVERS_MOST:
                self._solvers.popitem(last=False)
        self._solvers.move_to_end(key)
        return self._solvers[key]
