"""Solves of targets without further rows: answers where other rows lead away, and starts of problems with loops.

    problems not solved -> targets alone, joints without a target held -> answers, where there are any
    pose of a target -> through welds, poses of links at their other ends -> solved with these loops open -> starts

Attempts that lower a posture cost beside a target all end at its few minima. With the target alone, a redundant robot
stays near the start of each attempt, so some attempts end free of contact. The other rows are then not at their
minimum.

Example of welds: two arms hold an object. The target of the object fixes the pose of both hands. Each arm is first
solved as an island of its own, because both together seldom reach the loop at once; the solve of the closed loop begins
there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, identity_transform, transform_inverse, transform_multiply
from ik_service.robots import LoopConstraint, RobotModel
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.result import IKResult
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.solve import SolverCore

if TYPE_CHECKING:
    from typing import Self  # Python 3.11


TimeLeft: TypeAlias = Callable[[], SolverOptions]
"""Gives the options of a solve that begins now: its deadline is what is left of the caller's."""
FoundAnswers: TypeAlias = tuple[NDArray[Any], NDArray[np.bool_]]
"""Configurations [problems, joint_coord_count], and for which problems one has been found."""


TargetSolve: TypeAlias = Callable[[tuple[Target, ...], Batch, SolverOptions], IKResult | None]
"""Solves targets without further rows, in the robot's own order of coordinates; None where a number is faulty."""


class TargetsAlone:
    """Search with targets alone, for one solver; all its other rows have lower priority."""

    statuses: tuple[IKStatus, ...] = (
        IKStatus.STALLED,
        IKStatus.MAX_ITERATIONS,
        IKStatus.BLOCKED_BY_LIMITS,
        IKStatus.LOOP_OPEN,
        IKStatus.BLOCKED_BY_COLLISION,
    )

    def __init__(self, core: SolverCore, make: Callable[[Sequence[Target]], TargetSolve]) -> None:
        self._core, self._make = core, make
        self._solve: TargetSolve | None = None

    def can_help(self, result: IKResult, batch: Batch) -> NDArray[np.bool_]:
        """Return all problems."""
        return np.ones(len(result), dtype=bool)

    def search(self, batch: Batch, time_left: TimeLeft, joint_q: NDArray[Any]) -> FoundAnswers:
        """Return answers of the targets; joints without a target keep their values."""
        core = self._core
        if self._solve is None:
            self._solve = self._make(core.targets.all)
        start = core.robot.mid_joint_q if batch.start is None else batch.start
        moved = core.layout.coordinates_of(RowKind.TARGET, RowKind.CONSTRAINT)
        near = batch._replace(start=np.where(moved, start, joint_q))
        result = self._solve(core.targets.all, near, replace(time_left(), repair=False))
        assert result is not None  # the numbers were checked in the first solve
        return result.joint_q, result.success

    def judging(self, batch: Batch, chosen: NDArray[Any], options: SolverOptions) -> tuple[Batch, SolverOptions]:
        """Return the verifying solve, started at the answers: their whole turns are chosen already."""
        return batch._replace(start=chosen), replace(options, seeds=1, best_of=None)


@dataclass(frozen=True, eq=False)
class KnownPose:
    """A link with a pose fixed by a target."""

    target: int  # number of the target
    link: str
    T_tool_link: Float64Array  # pose of the link in the tool frame of the target, [7] or [problems, 7]


@dataclass(frozen=True, eq=False)
class OpenedProblem:
    """Targets of links with known poses, on the robot without the loops between these links."""

    robot: RobotModel  # the robot with these loops open
    poses: tuple[KnownPose, ...]  # one link of each body of known pose
    targets: tuple[Target, ...]  # targets of these links
    is_open: NDArray[np.bool_]  # open constraints of the robot, bool [constraints]

    @classmethod
    def of(cls, robot: RobotModel, targets: Sequence[Target]) -> "Self | None":
        """Open the welds between links of known pose; None where there are none."""
        known: dict[int, KnownPose] = {}
        for number, target in enumerate(targets):
            body = robot.link_frame(target.link)[0]
            if body >= 0 and target.frame is None and (target.weights() > 0.0).all():
                tool = identity_transform() if target.offset is None else np.asarray(target.offset)
                known.setdefault(body, KnownPose(number, target.link, transform_inverse(tool)))
        welds = [loop for loop in robot.loops if loop.joint == "weld" and loop.reference_link is not None]
        while beyond := _beyond(robot, targets, welds, known):
            known |= beyond
        opened = [loop for loop in welds if all(robot.link_frame(link)[0] in known for link in loop.links)]
        if not opened:
            return None
        poses = tuple(known.values())
        return cls(
            robot.with_loops([loop for loop in robot.loops if loop not in opened]),
            poses,
            tuple(Target(pose.link, reference_link=targets[pose.target].reference_link) for pose in poses),
            np.isin(robot.constraint_names, [loop.name for loop in opened]),
        )

    def given(self, given: Batch) -> Batch | None:
        """Return the poses of the links; None if a target in use is given without its whole pose."""
        positions, turns = [], []
        for pose in self.poses:
            position, turn = given.positions[pose.target], given.orientations_xyzw[pose.target]
            if position is None or turn is None:
                return None
            T_reference_tool = np.concatenate([position, turn], axis=1).astype(np.float64)
            T_reference_link = transform_multiply(T_reference_tool, np.atleast_2d(pose.T_tool_link))
            positions.append(T_reference_link[:, :3])
            turns.append(T_reference_link[:, 3:])
        return Batch(tuple(positions), tuple(turns), given.problem_count)


def _beyond(
    robot: RobotModel, targets: Sequence[Target], welds: Sequence[LoopConstraint], known: dict[int, KnownPose]
) -> dict[int, KnownPose]:
    """Return the poses known through one weld from the known poses."""
    found: dict[int, KnownPose] = {}
    for loop in welds:
        ends = [(loop.link, loop.offset), (loop.reference_link or "", loop.reference_offset)]
        for (link, frame), (other, other_frame) in (ends, ends[::-1]):
            (body, T_body_link), (other_body, _) = robot.link_frame(link), robot.link_frame(other)
            if other_body < 0 or other_body in known or body not in known:
                continue
            pose = known[body]
            reference = targets[pose.target].reference_link
            if reference is not None and robot.link_frame(reference)[0] == other_body:
                continue
            T_tool_body = transform_multiply(pose.T_tool_link, transform_inverse(robot.link_frame(pose.link)[1]))
            T_link_other = transform_multiply(np.array(frame), transform_inverse(np.array(other_frame)))
            T_tool_other = transform_multiply(T_tool_body, transform_multiply(T_body_link, T_link_other))
            found.setdefault(other_body, KnownPose(pose.target, other, T_tool_other))
    return found


class OpenedLoops:
    """Search of starts for one solver."""

    def __init__(self, robot: RobotModel, make: Callable[[RobotModel, Sequence[Target]], TargetSolve]) -> None:
        self._robot, self._make = robot, make
        self._targets: tuple[Target, ...] | None = None  # targets of `_problem`
        self._problem: OpenedProblem | None = None
        self._solve: TargetSolve | None = None

    def starts(self, targets: tuple[Target, ...], batch: Batch, options: SolverOptions) -> Float64Array | None:
        """Return starts in place of the middle of the ranges, [problems, joint_coord_count]."""
        # Problems with a loop not enabled start in the middle. None if no pose follows from a target (such as a target
        # without its whole pose), if loops are enabled in no problem or a number is faulty, or if
        # the options request several good answers or an answer that depends on the start.
        may_start_anywhere = (
            options.best_of is None and options.approximate is None and options.sampler in ("roberts", "uniform")
        )
        if not may_start_anywhere or options.solution_count > 1:
            return None
        problem = self._opened(targets)
        opened = None if problem is None else problem.given(batch)
        if problem is None or opened is None:
            return None
        others, closes = None, np.ones(1, dtype=bool)
        if (enabled := batch.enabled) is not None:
            others, closes = enabled[:, ~problem.is_open], np.all(enabled[:, problem.is_open], axis=1)
        if not closes.any():
            return None
        if self._solve is None:
            self._solve = self._make(problem.robot, problem.targets)
        result = self._solve(problem.targets, opened._replace(enabled=others, worlds=batch.worlds), options)
        return None if result is None else np.where(closes[:, None], result.joint_q, self._robot.mid_joint_q)

    def _opened(self, targets: tuple[Target, ...]) -> OpenedProblem | None:
        """Return the problem of these targets, renewed if data of a target has changed since the last solve."""
        if targets is not self._targets:
            before, self._targets = self._problem, targets
            self._problem = OpenedProblem.of(self._robot, targets)
            if _links(before) != _links(self._problem):
                self._solve = None
        return self._problem


def _links(problem: OpenedProblem | None) -> list[tuple[str, str | None]]:
    return [] if problem is None else [(target.link, target.reference_link) for target in problem.targets]
