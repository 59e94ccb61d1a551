"""Set-ups of 15 robots without loops or collision: targets, options, a posture, objectives alone; both engines."""

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import ik_service
from benchmarks.digests import answers
from benchmarks.digests.answers import SOFT_WEIGHT, STAGED_OPTIONS, Drawn
from benchmarks.digests.program import Budget, Parts, SetUps
from benchmarks.problems.compared_robots import BUILTIN_ROBOTS, KINOVA, MANY_LIMBS, UR5, XARM7, ComparedRobot
from objectives import IKObjectivePosition, IKObjectivePosture

FOREIGN_LIMBS = ("Allegro left", "Talos", "TIAGo", "Romeo")
ROBOTS = (
    *BUILTIN_ROBOTS.values(),
    ComparedRobot("panda_gripper", "panda_gripper", ("panda_leftfinger",)),
    KINOVA,
    XARM7,
    UR5,
    ComparedRobot("Baxter", "baxter_description/urdf/baxter.urdf", ("left_gripper", "right_gripper")),
    *(replace(one, name=name) for one, name in zip(MANY_LIMBS[2:], FOREIGN_LIMBS, strict=True)),
)
PROBLEMS = 100  # of one set-up; the plain one has four times as many
STAGED_PROBLEMS = 20
OPTIONS: dict[str, dict[str, Any]] = {
    "best_of cost": {"best_of": "cost", "seeds": 16},
    "best_of nearest": {"best_of": "nearest", "seeds": 16},
    "solutions": {"solutions": 4, "seeds": 16},
    "float64": {"precision": "float64"},
}


class Arm:
    """A robot with its targets and solvers, made when they are first needed."""

    def __init__(self, case: ComparedRobot, budget: Budget) -> None:
        self.links, self.budget = list(case.links), budget
        self._case = case

    @cached_property
    def given(self) -> Drawn:
        """All targets."""
        return answers.drawn(self._case.robot, self.links, 4 * self.budget.count(PROBLEMS))

    @cached_property
    def solver(self) -> ik_service.IKSolver:
        """The solver of the targets."""
        return answers.solver_of(self._case.robot, self.links, self.budget)

    def solved(
        self,
        count: int | None = None,
        start: str | None = None,
        *,
        options: dict[str, Any] | None = None,
        has_orientations: bool = True,
        **setting: Any,
    ) -> Parts:
        """Solve the first targets, or all, from no start or one that was drawn; with a solver of its own if told."""
        given = self.given if count is None else self.given.first(count)
        solver = answers.solver_of(self._case.robot, self.links, **setting) if setting else self.solver
        starts = None if start is None else getattr(given, start)
        poses = given[: 1 + has_orientations]
        return answers.of_result(solver.solve(*poses, initial_joint_q=starts, options=options))

    def with_posture(self, count: int, engine: str) -> Parts:
        """Solve targets beside a posture."""
        posture = IKObjectivePosture(self._case.robot.mid_joint_q, weight=SOFT_WEIGHT)
        setting = {"budget": self.budget, "engine": engine, "objectives": [posture]}
        return self.solved(count, options={"seeds": 2}, **setting)

    def objectives_alone(self, count: int, engine: str) -> Parts:
        """Solve a posture and a position that are objectives."""
        given, robot = self.given.first(count), self._case.robot
        position = IKObjectivePosition(self.links[0], given.positions[:, 0])
        setting = {"objectives": [IKObjectivePosture(robot.mid_joint_q), position]}
        asked = {"options": {"seeds": 2}, "problem_count": count, "initial_joint_q": given.starts}
        return answers.solved(robot, [], self.budget, engine, setting=setting, **asked)


def arms(budget: Budget) -> SetUps:
    """Yield the set-ups of all robots."""
    count, few = budget.count(PROBLEMS), budget.count(STAGED_PROBLEMS)
    two_threads = {} if budget.threads == 2 else {"budget": Budget(threads=2)}
    for case in ROBOTS:
        arm, name = Arm(case, budget), f"arms, {case.name}"
        yield f"{name}, plain", arm.solved
        yield f"{name}, two threads", partial(arm.solved, **two_threads)
        yield f"{name}, start", partial(arm.solved, count, "starts")
        yield f"{name}, start at the solution", partial(arm.solved, count, "joint_q")
        yield f"{name}, positions", partial(arm.solved, count, has_orientations=False)
        for option, options in OPTIONS.items():
            yield f"{name}, {option}", partial(arm.solved, count, "starts", options=options)
        staged = {"budget": budget, "engine": "staged"}
        yield f"{name}, staged", partial(arm.solved, few, options=STAGED_OPTIONS, **staged)
        for engine in ("auto", "staged"):
            yield f"{name}, {engine}, targets and a posture", partial(arm.with_posture, few, engine)
            yield f"{name}, {engine}, objectives alone", partial(arm.objectives_alone, few, engine)
