"""The problems of a solve, read from all arguments of a caller."""

from typing import Any

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.robots import RobotModel
from ik_service.solver.given.asked_limits import read_limits
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.reading import read_enabled, read_start, read_targets
from ik_service.solver.given.targets import Target, of_one_solve
from ik_service.solver.given.worlds import read_worlds


def read_problems(
    robot: RobotModel,
    order: CallerOrder,
    targets: tuple[Target, ...],
    options: SolverOptions,
    poses: tuple[Any, Any, Any],  # positions, orientations_xyzw, problem_count
    data: tuple[Any, Any, Any],  # offset, row_weights, tolerance
    start: Any,
    enabled: Any,
    obstacles: tuple[Any, Any, Any, Any],  # world, world_index, object_enabled, attached
    asked: tuple[Any, Any, Any],  # joint_limits, frozen, max_change
    *,
    wxyz: bool,
) -> Batch:
    """Return the checked problems of a solve; arguments and errors as in `IKSolver.solve`."""
    batch = read_targets(targets, *poses, wxyz=wxyz)
    count, limits = batch.problem_count, None
    if start is not None:
        start = read_start(robot, order, "initial_joint_q", start, count)
    enabled = read_enabled(robot.constraint_names, enabled, count)
    worlds = read_worlds(robot, options, *obstacles, count)
    if any(one is not None for one in asked):
        limits = read_limits(robot, order, options, start, count, *asked)
    own = of_one_solve(targets, robot, *data)
    return batch._replace(start=start, enabled=enabled, worlds=worlds, limits=limits, targets=own)
