"""Set-ups of robots with constraints: four mechanisms, a weld between two arms, limits of a pin, a cam.

Solves of both engines, derivatives, paths, ticks, and constraint kinematics on the host.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

import ik_service
from benchmarks.digests import answers
from benchmarks.digests.answers import COUNTS, DECIMALS, ENGINES, SOFT_WEIGHT, Drawn, Floats, of_record, solver_of
from benchmarks.digests.program import Budget, Parts, SetUps
from benchmarks.problems.mechanisms import MECHANISMS, Mechanism
from benchmarks.problems.tick_paths import LEFT, NEAR, held_object
from ik_service.control import ControlLimits, IKController
from ik_service.robots import CoordinateConstraint, LoopConstraint
from objectives import IKObjectivePosture

PERTURBED = 0.1  # standard deviation of each coordinate of a start [m or rad]
SPREAD = 0.3  # of configurations of the arms [rad]
APART, APART_EACH = 0.3, 4  # [m]; every so manieth target is moved away by as much
TICKS, DT = 200, 2e-3  # [s]
SPEED, ACCELERATION = 2.0, 20.0
WAYPOINTS, PATH_DT = 24, 0.05
SWEPT, STEP = 0.3, 0.1  # from the start on [rad or m]
THOROUGH = ("four_bar", "welded arms")  # which have a posture and open constraints, too: each compiles
BRIEF = ("limited pin", "cam")  # of which there are targets of both engines and ticks


@dataclass(frozen=True)
class Closed:
    """A robot with constraints."""

    name: str  # its name in set-ups
    make: Callable[[], ik_service.RobotModel]  # makes the robot
    target: ik_service.Target  # the target of its solver
    draw: Callable[[int, np.random.Generator], Floats]  # configurations: closed, but for arms and cams
    drive: str  # a joint that drives it
    has_orientations: bool = False  # whether the target takes orientations

    @cached_property
    def robot(self) -> ik_service.RobotModel:
        """The robot's model."""
        return self.make()

    def joint_q(self, count: int, random_seed: int = 7) -> Floats:
        """Return random configurations, rounded."""
        return np.round(self.draw(count, np.random.default_rng(random_seed)), DECIMALS)

    def given(self, count: int) -> Drawn:
        """Return targets, some of them moved away, and perturbed configurations as starts."""
        joint_q, link = self.joint_q(count), self.target.link
        poses = self.robot.forward_kinematics(joint_q, [link])
        positions, orientations = np.round(poses.positions, DECIMALS), np.round(poses.orientations_xyzw, DECIMALS)
        positions[::APART_EACH, :, 0] += APART
        starts = joint_q + np.random.default_rng(8).normal(0.0, PERTURBED, joint_q.shape)
        return Drawn(positions, orientations, np.round(starts, DECIMALS), joint_q)

    def poses(self, given: Drawn) -> tuple[Floats, Floats | None]:
        """Return what a solver of its target takes."""
        return given.positions, given.orientations if self.has_orientations else None


def _mechanism(one: Mechanism) -> Closed:
    target = ik_service.Target(one.link, row_weights=one.axes)
    make = partial(ik_service.load_robot, one.name)
    return Closed(one.name, make, target, one.configurations, one.drives[0], one.name == "stewart")


def _limited_pin() -> ik_service.RobotModel:
    robot = ik_service.load_robot("four_bar")
    (pin,) = robot.loops
    ends = pin.link, pin.reference_link, pin.offset, pin.reference_offset
    return robot.with_loops([LoopConstraint("pin", "revolute", *ends, limits=(0.8, 1.3))])


def _near(count: int, rng: np.random.Generator) -> Floats:
    return NEAR + rng.normal(0.0, SPREAD / 3.0, (count, len(NEAR)))


def _with_cam() -> ik_service.RobotModel:
    arm = ik_service.load_robot("panda", collision="ignore")
    cam = CoordinateConstraint("cam", "panda_joint2", "panda_joint6", (-1.2, 0.5, 0.1))
    return arm.with_coordinate_constraints([cam])


def _of_cam(count: int, rng: np.random.Generator) -> Floats:
    return _with_cam().random_joint_q(rng, count)


ROBOTS = (
    *map(_mechanism, MECHANISMS),
    Closed("welded arms", held_object, ik_service.Target(LEFT), _near, "left_panda_joint4", has_orientations=True),
    replace(_mechanism(MECHANISMS[0]), name="limited pin", make=_limited_pin),
    Closed("cam", _with_cam, ik_service.Target("panda_hand"), _of_cam, "panda_joint6", has_orientations=True),
)


def loops(budget: Budget) -> SetUps:
    """Yield the set-ups of solvers and controllers."""
    for one in ROBOTS:
        name = f"loops, {one.name}"
        for engine in ENGINES:
            count = budget.count(COUNTS[engine])
            solved = partial(_solved, one, engine, count, budget)
            yield f"{name}, {engine}, targets", solved
            if one.name in BRIEF:
                continue
            yield f"{name}, {engine}, targets without a start", partial(solved, start=None)
            yield f"{name}, {engine}, start at the solution", partial(solved, start="joint_q")
            yield f"{name}, {engine}, closing alone", partial(_closing, one, engine, count, budget)
            if one.name in THOROUGH:
                yield f"{name}, {engine}, some open", partial(solved, has_open=True)
                yield f"{name}, {engine}, targets and a posture", partial(solved, has_posture=True)
        yield f"{name}, ticks", partial(_ticks, one, budget, None)
        if one.name in BRIEF:
            continue
        count = budget.count(COUNTS["compiled"])
        yield f"{name}, float64", partial(_solved, one, "compiled", count, budget, options={"precision": "float64"})
        yield f"{name}, linearise", partial(_linearised, one, budget.count(COUNTS["staged"]), budget)
        yield f"{name}, follow", partial(_followed, one, budget)
        yield f"{name}, ticks, acceleration", partial(_ticks, one, budget, ACCELERATION)


def _solved(
    one: Closed,
    engine: str,
    count: int,
    budget: Budget,
    *,
    start: str | None = "starts",
    has_open: bool = False,
    has_posture: bool = False,
    **asked: Any,
) -> Parts:
    """Solve targets from perturbed configurations, from closed ones, or from no start.

    The first constraint may be open in every second problem, and a posture may yield to the targets.
    """
    given = one.given(count)
    setting = {"objectives": [IKObjectivePosture(one.robot.mid_joint_q, weight=SOFT_WEIGHT)] * has_posture}
    asked["initial_joint_q"] = None if start is None else getattr(given, start)
    if has_open:
        asked["constraint_enabled"] = np.ones((count, len(one.robot.constraint_names)), bool)
        asked["constraint_enabled"][::2, 0] = False
    return answers.solved(one.robot, [one.target], budget, engine, one.poses(given), setting=setting, **asked)


def _closing(one: Closed, engine: str, count: int, budget: Budget) -> Parts:
    """Close loops from perturbed configurations, without targets."""
    starts = one.given(count).starts
    return answers.solved(one.robot, [], budget, engine, problem_count=count, initial_joint_q=starts)


def _linearised(one: Closed, count: int, budget: Budget) -> Parts:
    given, solver = one.given(count), solver_of(one.robot, [one.target], budget)
    result = solver.solve(*one.poses(given), initial_joint_q=given.starts)
    return of_record(solver.linearise(result, *one.poses(given), limits=True))


def _way(one: Closed, count: int) -> tuple[Floats, Floats]:
    """Return poses on the straight way between those of two configurations, with the orientation of the first."""
    ends = one.robot.forward_kinematics(one.joint_q(2, 3), [one.target.link])
    share = np.linspace(0.0, 1.0, count)[:, None, None]
    positions = (1.0 - share) * ends.positions[:1] + share * ends.positions[1:]
    return np.round(positions, DECIMALS), np.round(np.tile(ends.orientations_xyzw[:1], (count, 1, 1)), DECIMALS)


def _followed(one: Closed, budget: Budget) -> Parts:
    positions, orientations = _way(one, WAYPOINTS)
    solver, start = solver_of(one.robot, [one.target], budget), one.joint_q(2, 3)[0]
    turns = orientations if one.has_orientations else None
    return of_record(solver.follow(positions, turns, PATH_DT, start_joint_q=start, velocity=SPEED, solutions=2))


def _ticks(one: Closed, budget: Budget, acceleration: float | None) -> Parts:
    controller = IKController(one.robot, [one.target], limits=ControlLimits(velocity=SPEED, acceleration=acceleration))
    controller.reset(one.joint_q(2, 3)[0])
    targets = np.concatenate(_way(one, budget.count(TICKS)), axis=2)
    return answers.of_ticks(controller, list(targets), DT)


def constraint_kinematics(budget: Budget) -> SetUps:
    """Yield the set-ups of `robot.constraints`."""
    for one in ROBOTS:
        count = budget.count(COUNTS["staged"])
        for name, make in (
            ("rows", _rows),
            ("close", partial(_closed, solutions=1)),
            ("assembly modes", partial(_closed, solutions=2)),
            ("motion", _motion),
            ("partition", _partition),
            ("sweep", _sweep),
        ):
            yield f"constraints, {one.name}, {name}", partial(make, one, count)


def _rates(one: Closed, count: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(9)
    velocity, acceleration = rng.normal(0.0, 1.0, (2, count, one.robot.joint_dof_count))
    return np.round(velocity, DECIMALS), np.round(acceleration, DECIMALS)


def _rows(one: Closed, count: int) -> Parts:
    rows, joint_q, (velocity, acceleration) = one.robot.constraints, one.given(count).starts, _rates(one, count)
    return {
        "with_closing_joints": rows.with_closing_joints(joint_q),
        "error_frames": rows.error_frames(joint_q),
        "error": rows.error(joint_q),
        "error_gradient": rows.error_gradient(joint_q),
        "jacobian": rows.jacobian(joint_q),
        "jacobian_dot": rows.jacobian_dot(joint_q, velocity),
        "error_velocity": rows.error_velocity(joint_q, velocity),
        "error_acceleration": rows.error_acceleration(joint_q, velocity, acceleration),
        "residual": rows.residual(joint_q),
        "residual_jacobian": rows.residual_jacobian(joint_q),
    }


def _closed(one: Closed, count: int, solutions: int) -> Parts:
    """Close loops from perturbed configurations, and look for assembly modes."""
    return of_record(one.robot.constraints.close(one.given(count).starts, solutions=solutions))


def _motion(one: Closed, count: int) -> Parts:
    rows, joint_q, (velocity, acceleration) = one.robot.constraints, one.joint_q(count), _rates(one, count)
    moving = rows.velocity(joint_q, velocity)
    changing = rows.acceleration(joint_q, moving.joint_qd, acceleration)
    return answers.joined(velocity=of_record(moving), acceleration=of_record(changing))


def _partition(one: Closed, count: int) -> Parts:
    return of_record(one.robot.constraints.partition(one.joint_q(count)))


def _sweep(one: Closed, count: int) -> Parts:
    """Move the drive step by step from closed configurations."""
    joint_q = one.joint_q(count)
    first = float(joint_q[0, one.robot.coordinate_names.index(one.drive)])
    return of_record(one.robot.constraints.sweep(one.drive, (first, first + SWEPT), STEP, joint_q=joint_q))
