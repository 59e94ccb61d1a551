"""Set-ups of controllers without loops or collision: limits, postures, priorities, several robots, a cart, paths."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.digests.answers import DECIMALS, SOFT_WEIGHT, Floats, of_record, of_ticks
from benchmarks.digests.arms import ROBOTS
from benchmarks.digests.program import Budget, Parts, SetUps
from benchmarks.problems.compared_robots import PANDA, ComparedRobot
from benchmarks.problems.tick_paths import WHEELS, arm_on_a_cart, bend, controller_of
from ik_service.control import ControlLimits, IKController
from ik_service.robots import RobotModel
from objectives import IKObjectiveLookAt, IKObjectivePosture

TICKED = ("panda", "ur5e", "dual_panda", "humanoid")
TICKS = 1250  # of each of these, with and without a limit of acceleration
FEWER_TICKS = 300  # of other set-ups
DT = 1e-3  # [s]
ACCELERATION = 10.0  # [rad/s^2]
PATH_STEP = 2e-3  # [rad] between the configurations that a path of ticks goes through


def ticks(budget: Budget) -> SetUps:
    """Yield the set-ups of all controllers."""
    for case in ROBOTS:
        if case.name in TICKED:
            for acceleration in (None, ACCELERATION):
                settings = {"limits": ControlLimits(acceleration=acceleration)}
                run = partial(_along, case, budget.count(TICKS), settings)
                yield f"ticks, {case.name}, acceleration {acceleration}", run
    count, robot = budget.count(FEWER_TICKS), PANDA.robot
    for name, settings in _settings(robot).items():
        yield f"ticks, panda, {name}", partial(_along, PANDA, count, settings)
    yield "ticks, panda, several robots", partial(_several, count)
    yield "ticks, panda, measured", partial(_measured, count)
    yield "ticks, panda, follow", partial(_followed, count)
    yield "ticks, panda, linearise", _linearised
    for acceleration in (None, 30.0):
        yield f"ticks, arm on a cart, acceleration {acceleration}", partial(_rolling, count, acceleration)


def _settings(robot: RobotModel) -> dict[str, dict[str, Any]]:
    """Return arguments of controllers, by name; objectives by what makes them."""
    posture = partial(IKObjectivePosture, robot.mid_joint_q, weight=SOFT_WEIGHT)
    looks = partial(IKObjectiveLookAt, "panda_link4", (0.6, 0.2, 0.4), weight=SOFT_WEIGHT)
    return {
        "posture": {"posture": robot.mid_joint_q, "posture_weight": 0.1},
        "direction kept": {"scale_direction": True, "limits": ControlLimits(velocity=0.5)},
        "joint step and margin": {"limits": ControlLimits(joint_step=1e-3, position_margin=0.1)},
        "objectives of priority 0": {"makes": [(posture, 0)]},
        "objectives of priority 1": {"makes": [(posture, 1)]},
        "objectives of both priorities": {"makes": [(looks, 0), (posture, 1)]},
    }


def _way(case: ComparedRobot, count: int, random_seed: int = 11) -> tuple[Floats, Floats]:
    """Return poses of the links along a straight line between two configurations, and the first of these."""
    robot, links, rng = case.robot, list(case.links), np.random.default_rng(random_seed)
    ends = np.round(robot.random_joint_q(rng, 2), DECIMALS)
    steps = np.minimum(PATH_STEP * np.arange(count), 1.0)[:, None]
    joint_q = robot.clamp_joint_q((1.0 - steps) * ends[0] + steps * ends[1])
    poses = robot.forward_kinematics(joint_q, links)
    return np.round(np.concatenate([poses.positions, poses.orientations_xyzw], axis=2), DECIMALS), ends[0]


def _controller(case: ComparedRobot, settings: dict[str, Any]) -> IKController:
    makes: list[tuple[Callable[[], Any], int]] = settings.get("makes", [])
    objectives = [make() for make, _ in makes]
    for objective, (_, priority) in zip(objectives, makes, strict=True):
        objective.priority = priority
    chosen = {name: value for name, value in settings.items() if name != "makes"}
    return IKController(case.robot, list(case.links), objectives=objectives, **chosen)


def _along(case: ComparedRobot, count: int, settings: dict[str, Any]) -> Parts:
    targets, start = _way(case, count)
    controller = _controller(case, settings)
    controller.reset(start)
    return of_ticks(controller, list(targets), DT)


def _several(count: int) -> Parts:
    """Go along three ways with three robots together."""
    ways = [_way(PANDA, count, random_seed) for random_seed in (11, 12, 13)]
    controller = _controller(PANDA, {"robots": len(ways), "limits": ControlLimits(acceleration=ACCELERATION)})
    controller.reset(np.stack([start for _, start in ways]))
    return of_ticks(controller, list(np.stack([targets for targets, _ in ways], axis=1)), DT)


def _measured(count: int) -> Parts:
    """Go along a way with measured places and speeds, which lag behind."""
    targets, start = _way(PANDA, count)
    controller = _controller(PANDA, {})
    controller.reset(start)
    measured, found = start, []
    for target in targets:
        result = controller.step(target, measured, DT, joint_qd=np.zeros(len(start)))
        found.append(result.joint_q[0].copy())
        measured = np.round(0.5 * (measured + result.joint_q[0]), DECIMALS)
    return {"joint_q": np.stack(found)}


def _followed(count: int) -> Parts:
    targets, start = _way(PANDA, count)
    controller = _controller(PANDA, {})
    return of_record(controller.follow(targets[..., :3], targets[..., 3:], DT, start_joint_q=start))


def _linearised() -> Parts:
    targets, start = _way(PANDA, 5)
    return of_record(_controller(PANDA, {}).linearise(targets[-1], start, DT))


def _rolling(count: int, acceleration: float | None) -> Parts:
    robot = arm_on_a_cart()
    start = np.round(robot.mid_joint_q, DECIMALS)
    controller = controller_of(robot, start, ControlLimits(velocity=WHEELS, acceleration=acceleration))
    controller.reset(start)
    return of_ticks(controller, list(np.round(bend(robot, start, count), DECIMALS)), DT)
