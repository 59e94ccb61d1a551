"""Set-ups with collision on: a robot and itself, worlds, attached objects, repair; both engines, paths and ticks."""

from functools import cache, partial
from typing import Any

import numpy as np

import ik_service
from benchmarks.digests.answers import (
    COUNTS,
    ENGINES,
    STAGED_OPTIONS,
    drawn,
    of_record,
    of_result,
    of_ticks,
    solver_of,
    way,
)
from benchmarks.digests.program import Budget, Parts, SetUps
from ik_service.control import ControlLimits, IKController
from ik_service.robots import (
    AttachedObject,
    Box,
    Capsule,
    Cylinder,
    DistanceGrid,
    HalfSpace,
    RobotModel,
    Sphere,
    World,
)
from objectives import IKObjectivePosture

LINKS = {
    "panda": ("panda_hand",),
    "dual_panda": ("left_panda_hand", "right_panda_hand"),
}
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
SOFT_WEIGHT = 0.03
TICKS, DT, KEPT = 300, 2e-3, 0.01  # [s], [m]
WAYPOINTS, PATH_DT = 24, 0.1


@cache
def _robot(name: str) -> RobotModel:
    return ik_service.load_robot(name)


@cache
def _world(name: str) -> Any:
    """Return a cell with an obstacle of every shape, or several worlds."""
    upright = (0.0, 0.0, 0.0, 1.0)
    cell = World(
        {
            "floor": HalfSpace((0.0, 0.0, 1.0), -0.3),
            "box": Box((0.2, 0.4, 0.3), (0.55, 0.0, 0.15, *upright)),
            "ball": Sphere(0.12, (0.0, 0.6, 0.5)),
            "pole": Capsule(0.05, 0.8, (-0.4, -0.4, 0.4, *upright)),
            "can": Cylinder(0.08, 0.3, (0.3, -0.5, 0.2, *upright)),
            "grid": DistanceGrid.sampled(
                lambda points: np.linalg.norm(points - [0.0, 0.0, 1.1], axis=1) - 0.1,
                (-0.2, -0.2, 0.9),
                (0.2, 0.2, 1.3),
                0.05,
            ),
        }
    )
    table = World({"table": Box((2.0, 2.0, 0.1), (0.0, 0.0, -0.15, *upright))})
    return cell if name == "cell" else [cell, table]


def _carried(name: str) -> dict[str, AttachedObject]:
    spheres = [[0.0, 0.0, 0.15, 0.04], [0.0, 0.05, 0.2, 0.03]]
    return {"tool": AttachedObject(CARRIER[name], spheres, touches=[TOUCHED[name]])}


def surroundings(budget: Budget) -> SetUps:
    """Yield the set-ups of solvers, paths and controllers with collision on, and of the check on the host."""
    for name in LINKS:
        for engine in ENGINES:
            solves = SOLVES | (COMPILED_SOLVES if engine == "compiled" else {})
            for kind, asked in solves.items():
                yield f"collision, {name}, {engine}, {kind}", partial(_solved, name, engine, budget, **asked)
            yield (
                f"collision, {name}, {engine}, a posture",
                partial(_solved, name, engine, budget, world="cell", posture=True),
            )
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
    options: dict[str, Any] | None = None,
) -> Parts:
    """Solve targets in a world, or in the robot's own company."""
    robot, count = _robot(name), budget.count(COUNTS[engine])
    given = drawn(robot, LINKS[name], count)
    around = None if world is None else _world(world)
    asked: dict[str, Any] = {"world": around}
    if world == "several":
        asked["world_index"] = np.arange(count) % len(around)
    if away:
        asked["object_enabled"] = (np.arange(count)[:, None] + np.arange(len(around.names))) % 3 != 0
    if attached:
        asked["attached"] = _carried(name)
    soft = [IKObjectivePosture(robot.mid_joint_q, weight=SOFT_WEIGHT)] if posture else []
    solver = solver_of(robot, LINKS[name], budget, engine, objectives=soft)
    chosen = (STAGED_OPTIONS if engine == "staged" else {}) | (options or {})
    poses = given.positions, given.orientations
    return of_result(solver.solve(*poses, initial_joint_q=given.starts, options=chosen, **asked))


def _checked(name: str, budget: Budget) -> Parts:
    """Give how far configurations are from contact, by the host."""
    robot = _robot(name)
    joint_q = drawn(robot, LINKS[name], budget.count(COUNTS["compiled"])).joint_q
    parts = {f"itself {key}": value for key, value in of_record(robot.collision(joint_q)).items()}
    world = robot.collision(joint_q, _world("cell"), attached=_carried(name))
    return parts | {f"world {key}": value for key, value in of_record(world).items()}


def _followed(name: str, budget: Budget) -> Parts:
    """Follow a way in a world, with an attached object."""
    positions, orientations, start = way(_robot(name), LINKS[name], WAYPOINTS)
    solver = solver_of(_robot(name), LINKS[name], budget)
    around = {"world": _world("cell"), "attached": _carried(name)}
    return of_record(solver.follow(positions, orientations, PATH_DT, start_joint_q=start, solutions=4, **around))


def _ticks(name: str, budget: Budget, acceleration: float | None) -> Parts:
    """Keep clear of a world tick by tick; half-way an object is attached and the world becomes another one."""
    robot, count = _robot(name), budget.count(TICKS)
    cell, table = _world("several")
    positions, orientations, start = way(robot, LINKS[name], count)
    limits = ControlLimits(clearance=KEPT, acceleration=acceleration)
    controller = IKController(robot, list(LINKS[name]), limits=limits, world=cell)
    controller.reset(start)
    targets = list(np.concatenate([positions, orientations], axis=2))
    first = of_ticks(controller, targets[: count // 2 or 1], DT)
    controller.set_world(table, _carried(name))
    second = of_ticks(controller, targets[count // 2 :], DT)
    return {f"first {key}": value for key, value in first.items()} | {
        f"second {key}": value for key, value in second.items()
    }
