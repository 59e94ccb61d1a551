"""Set-ups with collision on: a robot and itself, worlds, attached objects, repair; both engines, paths and ticks."""

from functools import cache, partial
from typing import Any

import numpy as np

import ik_service
from benchmarks.digests import answers
from benchmarks.digests.answers import COUNTS, ENGINES, HANDS, drawn, of_record
from benchmarks.digests.program import Budget, Parts, SetUps
from ik_service import robots
from ik_service.control import ControlLimits, IKController
from objectives import IKObjectivePosture

CARRIER = {"panda": "panda_hand", "dual_panda": "left_panda_hand"}
TOUCHED = {"panda": "panda_link7", "dual_panda": "left_panda_link7"}
SOLVES: dict[str, dict[str, Any]] = {
    "itself": {},
    "world": {"world": "cell"},
    "several worlds": {"world": "several"},
    "objects away": {"world": "cell", "away": True},
    "attached": {"world": "cell", "attached": True},
    "margin": {"world": "cell", "options": {"margin": 0.02}},
    "repair": {"world": "cell", "options": {"repair": True, "seeds": 2}},
}
COMPILED_SOLVES: dict[str, dict[str, Any]] = {
    "best_of clearance": {"world": "cell", "options": {"best_of": "clearance", "seeds": 16}},
    "solutions": {"world": "cell", "options": {"solutions": 3, "seeds": 16}},
    "float64": {"world": "cell", "options": {"precision": "float64"}},
}
WITH_A_POSTURE = {"a posture": {"world": "cell", "posture": True}}
TICKS, DT, KEPT = 300, 2e-3, 0.01  # [s], [m]
WAYPOINTS, PATH_DT = 24, 0.1


@cache
def _robot(name: str) -> robots.RobotModel:
    return ik_service.load_robot(name)


@cache
def _world(name: str) -> Any:
    """Return a cell with an obstacle of every shape, or several worlds."""
    upright = (0.0, 0.0, 0.0, 1.0)
    ends = (-0.2, -0.2, 0.9), (0.2, 0.2, 1.3)
    shapes = {
        "floor": robots.HalfSpace((0.0, 0.0, 1.0), -0.3),
        "box": robots.Box((0.2, 0.4, 0.3), (0.55, 0.0, 0.15, *upright)),
        "ball": robots.Sphere(0.12, (0.0, 0.6, 0.5)),
        "pole": robots.Capsule(0.05, 0.8, (-0.4, -0.4, 0.4, *upright)),
        "can": robots.Cylinder(0.08, 0.3, (0.3, -0.5, 0.2, *upright)),
        "grid": robots.DistanceGrid.sampled(lambda p: np.linalg.norm(p - [0.0, 0.0, 1.1], axis=1) - 0.1, *ends, 0.05),
    }
    cell = robots.World(shapes)
    table = robots.World({"table": robots.Box((2.0, 2.0, 0.1), (0.0, 0.0, -0.15, *upright))})
    return cell if name == "cell" else [cell, table]


def _carried(name: str) -> dict[str, robots.AttachedObject]:
    spheres = [[0.0, 0.0, 0.15, 0.04], [0.0, 0.05, 0.2, 0.03]]
    return {"tool": robots.AttachedObject(CARRIER[name], spheres, touches=[TOUCHED[name]])}


def surroundings(budget: Budget) -> SetUps:
    """Yield the set-ups of solvers, paths and controllers with collision on, and of the check on the host."""
    for name in HANDS:
        for engine in ENGINES:
            solves = SOLVES | (COMPILED_SOLVES if engine == "compiled" else {}) | WITH_A_POSTURE
            for kind, asked in solves.items():
                yield f"collision, {name}, {engine}, {kind}", partial(_solved, name, engine, budget, **asked)
        yield f"collision, {name}, check", partial(_checked, name, budget)
        yield f"collision, {name}, follow", partial(_followed, name, budget)
        for acceleration in (None, 10.0):
            yield f"collision, {name}, ticks, acceleration {acceleration}", partial(_ticks, name, budget, acceleration)


def _solved(
    name: str,
    engine: str,
    budget: Budget,
    *,
    world: str | None = None,
    away: bool = False,
    attached: bool = False,
    posture: bool = False,
    **asked: Any,
) -> Parts:
    """Solve targets in a world, or in the robot's own company."""
    robot, count = _robot(name), budget.count(COUNTS[engine])
    given = drawn(robot, HANDS[name], count)
    around = None if world is None else _world(world)
    asked |= {"world": around, "initial_joint_q": given.starts}
    if world == "several":
        asked["world_index"] = np.arange(count) % len(around)
    if away:
        asked["object_enabled"] = (np.arange(count)[:, None] + np.arange(len(around.names))) % 3 != 0
    if attached:
        asked["attached"] = _carried(name)
    setting = {"objectives": [IKObjectivePosture(robot.mid_joint_q, weight=answers.SOFT_WEIGHT)] * posture}
    return answers.solved(robot, HANDS[name], budget, engine, given[:2], setting=setting, **asked)


def _checked(name: str, budget: Budget) -> Parts:
    """Give how far configurations are from contact, by the host."""
    robot = _robot(name)
    joint_q = drawn(robot, HANDS[name], budget.count(COUNTS["compiled"])).joint_q
    itself, world = robot.collision(joint_q), robot.collision(joint_q, _world("cell"), attached=_carried(name))
    return answers.joined(itself=of_record(itself), world=of_record(world))


def _followed(name: str, budget: Budget) -> Parts:
    *poses, start = answers.way(_robot(name), HANDS[name], WAYPOINTS)
    solver = answers.solver_of(_robot(name), HANDS[name], budget)
    around = {"world": _world("cell"), "attached": _carried(name)}
    return of_record(solver.follow(*poses, PATH_DT, start_joint_q=start, solutions=4, **around))


def _ticks(name: str, budget: Budget, acceleration: float | None) -> Parts:
    """Keep clear of a world tick by tick; half-way an object is attached and the world becomes another one."""
    robot, count = _robot(name), budget.count(TICKS)
    cell, table = _world("several")
    *poses, start = answers.way(robot, HANDS[name], count)
    limits = ControlLimits(clearance=KEPT, acceleration=acceleration)
    controller = IKController(robot, HANDS[name], limits=limits, world=cell)
    controller.reset(start)
    targets = list(np.concatenate(poses, axis=2))
    first = answers.of_ticks(controller, targets[: count // 2 or 1], DT)
    controller.set_world(table, _carried(name))
    return answers.joined(first=first, second=answers.of_ticks(controller, targets[count // 2 :], DT))
