"""Derivatives of the answers of one solver, in its caller's order of joints: see `IKSolver.linearise`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ik_service.solver.derivatives.answers import AnswerIslands, check_answers, check_derivable
from ik_service.solver.derivatives.host_rows import HostRows
from ik_service.solver.derivatives.linearisation import Linearisation
from ik_service.solver.derivatives.linearise import linearise
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.reading import check_lines, check_targets, read_start
from ik_service.solver.result import IKResult, ResultHead
from ik_service.solver.solve import SolverCore
from objectives import IKObjective


def linearised(
    core: SolverCore,
    head: ResultHead,  # of the answers
    result: IKResult,
    batch: Batch,  # the solved problems, with their targets
    data: Sequence[tuple[IKObjective, str]] = (),
    *,
    limits: bool = False,
) -> Linearisation:
    """Return the derivatives of answers; arguments and errors as in `IKSolver.linearise`."""
    robot, targets, order, count = core.robot, result.targets, head.order, None if result.targets else len(result)
    given = check_targets(targets, [*batch.positions] or None, [*batch.orientations_xyzw] or None, count)
    check_derivable(result, targets, given)
    check_lines(core.objectives, targets, given.problem_count)
    check_answers(result, head, targets, given, core.layout.incidence)
    joint_q = read_start(robot, order, "result.joint_q", result.joint_q, len(result))
    if not order.is_own:  # the order may leave followers out
        joint_q = robot.complete_joint_q(joint_q)
    rows = HostRows(robot, core.layout.rows, hard_limits=core.options.joint_limits == "hard")
    islands, further = AnswerIslands.of_result(result), rows.further(data, limits=limits)
    joint_q = np.atleast_2d(joint_q)
    derived = linearise(rows, targets, given, joint_q, islands, batch.enabled, further, result.limits)
    return derived if order.is_own else derived.ordered(order)


def with_derivatives(result: IKResult, found: Linearisation) -> IKResult:
    """Return a result with the derivatives of its answers by their targets."""
    by_targets, exists = found.coordinates_by(found.by_targets), found.is_differentiable
    return replace(result, joint_q_by_targets=by_targets, is_differentiable=exists)
