"""Set-ups of what a request may ask for: limits of a problem, forms of targets, objectives of both priorities.

Also starts and seeds, paths, and derivatives of answers; both engines where both can.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

import ik_service
import objectives as rows
from benchmarks.digests import answers
from benchmarks.digests.answers import COUNTS, ENGINES, HANDS, SOFT_WEIGHT, drawn, of_record
from benchmarks.digests.program import Budget, Parts, SetUps
from benchmarks.problems.compared_robots import XARM7
from ik_service import SolverOptions, Target
from ik_service.robots import RobotModel

HAND, ELBOW, BOTH_HANDS = "panda_hand", "panda_link4", HANDS["dual_panda"]
PANDA_LIMITS = {"panda_joint1": (-0.5, 1.0), "panda_joint4": (-2.5, -1.0)}
LIMITS: dict[str, dict[str, Any]] = {
    "joint_limits": {"joint_limits": PANDA_LIMITS},
    "joint_limits of each problem": {"of_each": True},
    "frozen": {"frozen": ["panda_joint3"]},
    "max_change": {"max_change": 0.8},
    "max_change of one joint": {"max_change": {"panda_joint2": 0.3}},
    "soft": {"setting": {"options": SolverOptions(joint_limits="soft")}},
    "off": {"setting": {"options": SolverOptions(joint_limits="off")}},
}
FORMS: dict[str, tuple[Target, dict[str, Any]]] = {
    "offset": (Target(HAND, offset=(0.0, 0.05, 0.1, 0.0, 0.6, 0.0, 0.8)), {}),
    "weights": (Target(HAND, row_weights=(1.0, 0.5, 2.0, 1.0, 0.0, 1.0)), {}),
    "free": (Target(HAND, free=("rz",)), {}),
    "tolerance": (Target(HAND, tolerance=(0.01, 0.02, 0.01, 0.1, 0.1, 0.2)), {}),
    "tolerance in the world": (Target(HAND, tolerance=(0.01, 0.02, 0.01, 0.1, 0.1, 0.2), frame="world"), {}),
    "reference link": (Target(HAND, reference_link="panda_link2"), {}),
    "wxyz": (Target(HAND), {"wxyz": True}),
    "other order": (Target(HAND), {"joint_order": [f"panda_joint{k}" for k in (7, 2, 3, 4, 5, 6, 1)]}),
    "one system": (Target(HAND), {"islands": False}),
}
STARTS: dict[str, dict[str, Any]] = {
    "gauss": {"sampler": "gauss", "noise_std": 0.3, "seeds": 8},
    "uniform": {"sampler": "uniform", "seeds": 8},
    "none": {"sampler": "none"},
    "other seed": {"random_seed": 5, "seeds": 8},
    "approximate": {"approximate": "nearest", "seeds": 8},
    "few iterations": {"max_iterations": 6, "seeds": 8},
}
WAYPOINTS, PATH_DT = 24, 0.1

Objectives = Sequence[rows.IKObjective]


@cache
def _robot(name: str) -> RobotModel:
    return ik_service.load_robot(name, collision="ignore")


def _objectives(robot: RobotModel) -> Mapping[str, Callable[[], Objectives]]:
    """Return what is put beside a target, by name."""
    reference, point = robot.mid_joint_q, (0.6, 0.2, 0.4)
    return {
        "posture": lambda: [rows.IKObjectivePosture(reference, weight=SOFT_WEIGHT)],
        "rows of joints": lambda: [
            rows.IKObjectiveJointCentering(SOFT_WEIGHT),
            rows.IKObjectiveDamping(reference, weight=SOFT_WEIGHT),
            rows.IKObjectiveJointLimit(),
            rows.IKObjectiveCoupling("panda_joint3", "panda_joint1", (0.1, 0.5), weight=SOFT_WEIGHT),
        ],
        "rows of frames": lambda: [
            rows.IKObjectiveLookAt(ELBOW, point, weight=SOFT_WEIGHT),
            rows.IKObjectiveAxisAlign(ELBOW, (0.0, 0.0, 1.0), (0.0, 1.0, 0.0), weight=SOFT_WEIGHT),
            rows.IKObjectivePlane(ELBOW, point, (0.0, 0.0, 1.0), weight=SOFT_WEIGHT),
            rows.IKObjectiveLine(ELBOW, point, (1.0, 0.0, 0.0), weight=SOFT_WEIGHT),
        ],
        "manipulability": lambda: [rows.IKObjectiveManipulability(HAND, weight=SOFT_WEIGHT)],
    }


def requests(budget: Budget) -> SetUps:
    """Yield the set-ups of solves, paths and derivatives."""
    panda = _robot("panda")
    for engine in ENGINES:
        solved = partial(_solved, engine, budget)
        for kind, asked in LIMITS.items():
            yield f"limits, {engine}, {kind}", partial(solved, [HAND], **asked)
        for kind, (target, setting) in FORMS.items():
            yield f"targets, {engine}, {kind}", partial(solved, [target], setting=setting)
        for kind, options in STARTS.items():
            yield f"starts, {engine}, {kind}", partial(solved, [HAND], options=options)
        if engine == "staged":
            setting = {"options": SolverOptions(jacobian_mode="autodiff", candidates=2)}
            yield "targets, staged, autodiff", partial(solved, [HAND], setting=setting)
        for kind, make in _objectives(panda).items():
            for priority in (0, 1) if kind == "posture" else (1,):
                name = f"priorities, {engine}, {kind}, priority {priority}"
                yield name, partial(solved, [HAND], objectives=make, priority=priority)
        yield f"priorities, {engine}, both", partial(solved, [HAND], objectives=_both)
        yield f"priorities, {engine}, two arms", partial(_held_together, engine, budget)
        yield f"priorities, {engine}, centre of mass", partial(_balanced, engine, budget)
    for robot, links in HANDS.items():
        yield f"paths, {robot}, from a start", partial(_followed, robot, links, budget, starts=True)
        yield f"paths, {robot}, from anywhere", partial(_followed, robot, links, budget, starts=False)
        yield f"derivatives, {robot}, targets", partial(_derived, robot, links, budget)
        yield f"derivatives, {robot}, data and limits", partial(_derived, robot, links, budget, by_data=True)
        yield f"derivatives, {robot}, sensitivity", partial(_derived, robot, links, budget, by_option=True)


def _both() -> Objectives:
    first = rows.IKObjectiveLookAt(ELBOW, (0.6, 0.2, 0.4), weight=SOFT_WEIGHT)
    first.priority = 0
    return [first, rows.IKObjectivePosture(_robot("panda").mid_joint_q, weight=SOFT_WEIGHT)]


def _solved(
    engine: str,
    budget: Budget,
    targets: Sequence[Target | str],
    *,
    setting: dict[str, Any] | None = None,
    objectives: Callable[[], Objectives] | None = None,
    priority: int | None = None,
    of_each: bool = False,
    **asked: Any,
) -> Parts:
    """Solve targets of a Panda from other configurations, with what is asked for."""
    robot, count = _robot("panda"), budget.count(COUNTS[engine])
    given = drawn(robot, [HAND], count)
    beside = [] if objectives is None else objectives()
    for one in beside:
        if priority is not None:
            one.priority = priority
    if of_each:
        middle = np.linspace(-1.0, 1.0, count)
        asked["joint_limits"] = {"panda_joint1": (middle - 0.5, middle + 0.5)}
    setting = {"objectives": beside} | (setting or {})
    orientations = np.roll(given.orientations, 1, axis=-1) if setting.get("wxyz") else given.orientations
    order = setting.get("joint_order", robot.coordinate_names)
    start = given.starts[:, [robot.coordinate_names.index(name) for name in order]]
    poses = given.positions, orientations
    return answers.solved(robot, targets, budget, engine, poses, setting=setting, initial_joint_q=start, **asked)


def _held_together(engine: str, budget: Budget) -> Parts:
    """Solve the target of a hand while the other hand keeps its place in the first one's frame, as an objective."""
    robot = _robot("dual_panda")
    poses = [values[:, :1] for values in drawn(robot, BOTH_HANDS, budget.count(COUNTS[engine]))[:2]]
    held = rows.IKObjectiveRelativePose(*BOTH_HANDS[::-1], (0.0, 0.0, 0.3), (1.0, 0.0, 0.0, 0.0))
    return answers.solved(robot, BOTH_HANDS[:1], budget, engine, poses, setting={"objectives": [held]})


def _balanced(engine: str, budget: Budget) -> Parts:
    """Solve targets of an arm whose links have masses, while their centre is drawn to a place."""
    robot, links = XARM7.robot, list(XARM7.links)
    given = drawn(robot, links, budget.count(COUNTS[engine]))
    centre = rows.IKObjectiveCenterOfMass((0.1, 0.0, 0.4), weight=SOFT_WEIGHT)
    return answers.solved(robot, links, budget, engine, given[:2], setting={"objectives": [centre]})


def _followed(name: str, links: list[str], budget: Budget, *, starts: bool) -> Parts:
    robot = _robot(name)
    *poses, start = answers.way(robot, links, WAYPOINTS)
    given = {"start_joint_q": start if starts else None, "acceleration": 10.0}
    return of_record(answers.solver_of(robot, links, budget).follow(*poses, PATH_DT, **given))


def _derived(name: str, links: list[str], budget: Budget, *, by_data: bool = False, by_option: bool = False) -> Parts:
    """Derive answers by their targets, also as columns; beside a posture by tool frames, data and limits, too."""
    robot, more = _robot(name), {}
    targets: list[Any] = links
    posture = rows.IKObjectivePosture(robot.mid_joint_q, weight=SOFT_WEIGHT)
    given = drawn(robot, links, budget.count(COUNTS["staged" if by_data else "compiled"]))
    if by_data:
        targets = [Target(link, offset=(0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0)) for link in links]
        more = {"data": [(posture, "joint_q_reference")], "limits": True}
    solver = answers.solver_of(robot, targets, budget, objectives=[posture] * by_data)
    options = {"sensitivity": "target"} if by_option else None
    result = solver.solve(given.positions, given.orientations, options=options)
    return answers.of_result(result) if by_option else of_record(solver.linearise(result, *given[:2], **more))
