"""What set-ups of answers share: targets drawn from a seed, solvers of both engines, and the parts of what they answer.

Targets depend on nothing but a seed and the robot's own kinematics, rounded.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.digests.program import Budget, Parts
from benchmarks.problems.compared_robots import LINKS
from ik_service.control import IKController
from ik_service.result_schema import DEVICE_ISLAND_COLUMNS, ISLAND_COLUMNS, RESULT_COLUMNS

Floats = NDArray[np.float64]

ENGINES = "compiled", "staged"
COUNTS = {"compiled": 40, "staged": 8}  # problems of a set-up
STAGED_OPTIONS = {"seeds": 4}  # of the staged engine, which is slow
SOFT_WEIGHT = 0.03  # of what stands beside targets
DECIMALS = 9  # what of the targets does not depend on how kinematics are computed
HANDS = {name: LINKS[name] for name in ("panda", "dual_panda")}
OUT_OF_REACH = 8  # every so manieth target is moved away by up to a metre
NOT_KEPT = ("seconds",)  # fields that are other ones in every run


class Drawn(NamedTuple):
    """Targets: a line each, one for every link."""

    positions: Floats  # positions [m], some of them moved out of reach
    orientations: Floats  # quaternions xyzw
    starts: Floats  # other configurations
    joint_q: Floats  # the configurations that the targets come from

    def first(self, count: int) -> "Drawn":
        """Return the first lines."""
        return Drawn(*(values[:count] for values in self))


def drawn(robot: ik_service.RobotModel, links: Sequence[str], count: int, random_seed: int = 7) -> Drawn:
    """Return poses of random configurations, some of them moved out of reach, and other configurations as starts."""
    rng = np.random.default_rng(random_seed)
    joint_q = robot.random_joint_q(rng, count)
    poses = robot.forward_kinematics(joint_q, list(links))
    positions, orientations = np.round(poses.positions, DECIMALS), np.round(poses.orientations_xyzw, DECIMALS)
    positions[::OUT_OF_REACH] += rng.uniform(-1.0, 1.0, positions[::OUT_OF_REACH].shape)
    starts = np.round(robot.random_joint_q(rng, count), DECIMALS)
    return Drawn(positions, orientations, starts, np.round(joint_q, DECIMALS))


def way(robot: ik_service.RobotModel, links: Sequence[str], count: int) -> tuple[Floats, Floats, Floats]:
    """Return poses along the straight way in the joints between two configurations, and the first of them."""
    ends = drawn(robot, links, 2, random_seed=12).joint_q
    share = np.linspace(0.0, 1.0, count)[:, None]
    poses = robot.forward_kinematics((1.0 - share) * ends[0] + share * ends[1], list(links))
    return np.round(poses.positions, DECIMALS), np.round(poses.orientations_xyzw, DECIMALS), ends[0]


def solver_of(
    robot: ik_service.RobotModel, targets: Sequence[Any], budget: Budget, engine: Any = "auto", **arguments: Any
) -> ik_service.IKSolver:
    """Return a solver on the CPU, of the compiled engine with the threads asked for."""
    threads = None if engine == "staged" else budget.threads
    return ik_service.IKSolver(robot, targets, device="cpu", engine=engine, threads=threads, **arguments)


def solved(
    robot: ik_service.RobotModel,
    targets: Sequence[Any],
    budget: Budget,
    engine: Any,
    poses: Sequence[Floats | None] = (),
    *,
    options: Mapping[str, Any] | None = None,
    setting: Mapping[str, Any] | None = None,
    **asked: Any,
) -> Parts:
    """Return the columns of a solve of poses with its options by a new solver with its setting.

    The staged engine has few seeds.
    """
    solver = solver_of(robot, targets, budget, engine, **(setting or {}))
    chosen = (STAGED_OPTIONS if engine == "staged" else {}) | dict(options or {})
    return of_result(solver.solve(*poses, options=chosen, **asked))


def joined(**groups: Parts) -> Parts:
    """Return the parts of several records, each with the name of its record in front."""
    return {f"{group} {name}": value for group, parts in groups.items() for name, value in parts.items()}


def of_result(result: ik_service.IKResult) -> Parts:
    """Return all columns of the schema of results, and those of islands without what islands that are not there have.

    A column that becomes part of the schema is covered by itself.
    """
    parts = {column.name: getattr(result, column.name) for column in RESULT_COLUMNS}
    there = np.arange(result.islands.cost.shape[1]) < result.islands.nisland[:, None]
    for column in ISLAND_COLUMNS:
        value = getattr(result.islands, column.name)
        parts[f"island_{column.name}"] = (
            np.where(there, value, value.dtype.type(0)) if column in DEVICE_ISLAND_COLUMNS else value
        )
    return parts


def of_record(record: Any) -> Parts:
    """Return the fields of a record: arrays, numbers and names."""
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    kept = np.ndarray, int, float, str, tuple, type(None)
    return {name: value for name, value in values.items() if isinstance(value, kept) and name not in NOT_KEPT}


def of_ticks(controller: IKController, targets: Sequence[Floats], dt: float) -> Parts:
    """Return the fields of all ticks along targets, one after the other."""
    found = [of_record(controller.step(target, dt=dt).copy()) for target in targets]
    return {name: np.stack([np.asarray(one[name]) for one in found]) for name in found[0]}
