"""Passes over the frames of clips: starts, draws and limits from the neighbours, attempts, answers within the limits.

Everything between two passes stays in the arrays of the solver. Frames of a pass do not depend on each other.
"""

import typing
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels import typed_warp
from ik_service.kernels.device_lock import DEVICE_LOCK
from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.kernels.kernel_loading import KernelsFor, load_kernels_alone
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.clip_limits import CLIPS, begins_of
from ik_service.motion.clip_problem import ClipProblem
from ik_service.robots import RobotModel
from ik_service.solver.arrays.problem_arrays import BestAttempts, Searches
from ik_service.solver.construction import SolverSetup
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.codes import NO_TARGET
from ik_service.solver.lm.ranking import UNRANKED
from ik_service.solver.result import IKResult, ResultHead
from ik_service.solver.solve import SolverCore
from ik_service.solver.workspace import Workspace
from objectives import IKObjectivePosture
from objectives.tasks.joints import JOINT_Q_REFERENCE

SETTLED = 5e-3  # largest change of a joint in the last attempt at a settled frame [rad or m]
STRIDE, COLOUR, COLOURS = (wp.constant(k) for k in range(3))  # numbers of a pass


@wp.struct
class ClipArrays:
    """Clips under way."""

    number: wp.array[wp.int32]  # distance of neighbours or 0 for marked frames; colour; colours or 0 without limits
    begin: wp.array[wp.int32]  # first frame of the clip of each frame, [frames]
    end: wp.array[wp.int32]  # frame after the last, [frames]
    row_before: int  # row of `joint_q` with the configuration before clips, -1 for none
    column: wp.array[wp.int32]  # coordinates of the DOFs with limits, [moved]
    dof: wp.array[wp.int32]  # their active DOFs, [moved]
    other: wp.array[wp.int32]  # the other coordinates
    quaternion: wp.array[wp.int32]  # first coordinates of quaternions
    limits: wp.array2d[wp.float64]  # [4, moved]: lower, upper, largest step, largest bend
    joint_q: wp.array2d[wp.float64]  # [frames, or one more, coordinates]
    solved: wp.array[wp.int32]  # 1 in the present pass, [frames]
    left: wp.array[wp.int32]  # 1 if a frame or its neighbour has moved since the frame's last attempt, [frames]
    moved: wp.array[wp.float64]  # largest change of a joint in the last attempt, [frames]


@wp.struct
class ProblemArrays:
    """Arrays of the solver, with a line for each frame."""

    start: wp.array2d[wp.float32]
    reference: wp.array2d[wp.float32]
    lower: wp.array2d[wp.float64]  # of the active DOFs
    upper: wp.array2d[wp.float64]
    best: BestAttempts
    searches: Searches


ClipsRef: Any = typed_warp.reference_to(ClipArrays)
ProblemsRef: Any = typed_warp.reference_to(ProblemArrays)


@wp.func
@typing.no_type_check
def _is_solved(clips: ClipsRef, p: int):
    """Return whether a frame is solved in this pass."""
    stride, colours, place = clips.number[STRIDE], clips.number[COLOURS], p - clips.begin[p]
    if stride == 0:
        return clips.solved[p] == 1
    if colours == 0:
        return place % (2 * stride) == stride and p < clips.end[p] - 1
    return place % colours == clips.number[COLOUR] and clips.left[p] == 1


# Native code: Warp's own takes twice as long, reading strides again after each store.
@typed_warp.func_native(
    """
const int begin = clips.begin.data[p], end = clips.end.data[p], count = clips.column.shape[0];
const int stride = clips.number.data[STRIDE], last = end - 1;
const bool is_limited = clips.number.data[COLOURS] > 0, is_drawn = stride > 0;
const auto row = [&](int n) -> const double* {
    n = n < begin ? clips.row_before : n < end ? n : -1;
    return n < 0 || !is_limited ? nullptr : &wp::index(clips.joint_q, n, 0);
};
double *at = &wp::index(clips.joint_q, p, 0);
if (is_drawn && !is_limited) {  // between two others
    const int next = p + stride < last ? p + stride : last;
    const double *low = &wp::index(clips.joint_q, p - stride, 0), *high = &wp::index(clips.joint_q, next, 0);
    const double share = double(stride) / (next - p + stride);
    for (int c = 0; c < clips.joint_q.shape[1]; ++c) at[c] = (1.0 - share) * low[c] + share * high[c];
    for (int k = 0; k < clips.quaternion.shape[0]; ++k) {
        const int c = clips.quaternion.data[k];
        double dot = 0.0;
        for (int m = 0; m < 4; ++m) dot += low[c + m] * high[c + m];
        wp::quatd q;
        for (int m = 0; m < 4; ++m) q[m] = (1.0 - share) * low[c + m] + (dot < 0.0 ? -share : share) * high[c + m];
        q = wp::normalize(q);
        for (int m = 0; m < 4; ++m) at[c + m] = q[m];
    }
}
const double *before = row(p - 1), *after = row(p + 1), *far_before = row(p - 2), *far_after = row(p + 2);
const double *lowest = &wp::index(clips.limits, 0, 0), *steps = lowest + 2 * count, *bends = lowest + 3 * count;
const int *column = clips.column.data, *dof = clips.dof.data;
double *lower = &wp::index(problems.lower, p, 0), *upper = &wp::index(problems.upper, p, 0);
float *reference = &wp::index(problems.reference, p, 0);
for (int j = 0; j < count; ++j) {
    const int c = column[j], a = dof[j];
    double low = lowest[j], high = lowest[count + j], mean = at[c];
    const auto narrow = [&](double middle, double width) {
        low = middle - width > low ? middle - width : low;
        high = middle + width < high ? middle + width : high;
    };
    if (before) narrow(mean = before[c], steps[j]);
    if (before && far_before) narrow(2.0 * before[c] - far_before[c], bends[j]);
    if (after) narrow(after[c], steps[j]);
    if (after && far_after) narrow(2.0 * after[c] - far_after[c], bends[j]);
    if (after) mean = before ? 0.5 * (mean + after[c]) : after[c];
    if (before && after) narrow(mean, 0.5 * bends[j]);
    lower[a] = is_limited && at[c] < low ? at[c] : low;
    upper[a] = is_limited && at[c] > high ? at[c] : high;
    if (is_drawn) reference[c] = (float)mean;
}
float *start = &wp::index(problems.start, p, 0), *best = &wp::index(problems.best.joint_q, p, 0);
for (int c = 0; c < clips.joint_q.shape[1]; ++c) start[c] = best[c] = (float)at[c];
""".replace("STRIDE", str(int(STRIDE))).replace("COLOURS", str(int(COLOURS)))
)
def begin_joints(clips: ClipsRef, problems: ProblemsRef, p: int) -> None:
    """Place a frame between others or keep the frame; write start, limits and the mean of its neighbours."""


@typed_warp.func_native(
    """
double *at = &wp::index(clips.joint_q, p, 0);
const double *lower = &wp::index(problems.lower, p, 0), *upper = &wp::index(problems.upper, p, 0);
const float *best = &wp::index(problems.best.joint_q, p, 0);
double change = 0.0;
for (int j = 0; j < clips.column.shape[0]; ++j) {
    const int c = clips.column.data[j], a = clips.dof.data[j];
    double q = best[c];
    q = q < lower[a] ? lower[a] : q > upper[a] ? upper[a] : q;
    const double way = q > at[c] ? q - at[c] : at[c] - q;
    change = way > change ? way : change;
    at[c] = q;
}
for (int k = 0; k < clips.other.shape[0]; ++k) at[clips.other.data[k]] = best[clips.other.data[k]];
clips.moved.data[p] = change;
clips.left.data[p] = 0;
const int reach = clips.number.data[COLOURS] > 2 ? 2 : 1;
for (int n = p - reach; n <= p + reach && change > SETTLED; ++n)
    if (n >= clips.begin.data[p] && n < clips.end.data[p]) clips.left.data[n] = 1;
""".replace("SETTLED", str(SETTLED)).replace("COLOURS", str(int(COLOURS)))
)
def keep_joints(clips: ClipsRef, problems: ProblemsRef, p: int) -> None:
    """Take the answer of a frame, within its limits in float64, and mark the frames that are left."""


@wp.kernel(module=CLIPS, enable_backward=False)
@typing.no_type_check
def _begin(clips: ClipArrays, problems: ProblemArrays):
    """Prepare the frames of a pass, and end the searches of all others."""
    p = wp.tid()
    solved = int(_is_solved(clips, p))
    clips.solved[p] = solved
    island = int(0)
    while island < problems.best.rank.shape[1]:
        problems.searches.next_seed[p, island] = 0
        problems.searches.end_seed[p, island] = solved
        if solved == 1:
            problems.searches.counted[p, island] = 0
            problems.best.rank[p, island] = UNRANKED
            problems.best.met[p, island] = NO_TARGET
            problems.best.cost[p, island] = 0.0
        island += 1
    if solved == 1:
        begin_joints(clips, problems, p)


@wp.kernel(module=CLIPS, enable_backward=False)
@typing.no_type_check
def _keep(clips: ClipArrays, problems: ProblemArrays):
    """Take the answers of a pass."""
    p = wp.tid()
    if clips.solved[p] == 1:
        keep_joints(clips, problems, p)


class FittedClip(NamedTuple):
    """Configurations of all frames, and their last attempts."""

    joint_q: Float64Array  # [frames, joint_coord_count]
    moved: Float64Array  # largest change of a joint in the last attempt [rad or m], [frames]


class FramePasses:
    """Passes over the frames of clips."""

    def __init__(
        self,
        problem: ClipProblem,
        core: SolverCore,
        staged: tuple[Workspace, Callable[[int], None]],  # of `SolverCore.attempts`
        reference: wp.array[Any],  # of the draw of all joints, [frames or more, coordinates]
    ) -> None:
        robot, limits, clip, device = problem.robot, problem.limits, problem.clip, core.model.device
        self._core, self._robot, (work, self._attempt), count = core, robot, staged, len(clip)
        joint_q = work.problems.start_joint_q.numpy()[:count].astype(np.float64)
        self._locked = robot.trees.coordinate_treeid < 0  # locked joints stay where they are
        self._first = robot.mid_joint_q if problem.first is None else problem.first
        joint_q[:, self._locked] = self._first[self._locked]
        if problem.first is not None:
            joint_q = np.vstack([joint_q, problem.first])
        begins = np.append(begins_of(clip), count)
        self._number = HostDeviceArray((3,), wp.int32, device, per_problem=False)
        clips: Any = ClipArrays()
        arrays: Any = ProblemArrays()
        self._clips, self._arrays = clips, arrays
        for name, numbers in {
            "begin": begins[clip],
            "end": begins[clip + 1],
            "column": limits.columns,
            "dof": np.flatnonzero(robot.dof_coordinate[robot.active_dof] >= 0),
            "other": np.setdiff1d(np.arange(joint_q.shape[1]), limits.columns),
            "quaternion": np.array(list(robot.quaternion_starts.values())),
        }.items():
            setattr(clips, name, wp.array(numbers, dtype=wp.int32, device=device))
        clips.number, clips.row_before = self._number.device, -1 if problem.first is None else count
        clips.limits = wp.array(limits.table, device=device)
        clips.joint_q = wp.array(joint_q, device=device)
        clips.solved = wp.zeros(count, dtype=wp.int32, device=device)
        clips.left, clips.moved = wp.ones_like(clips.solved), wp.zeros(count, dtype=wp.float64, device=device)
        arrays.start, arrays.reference = work.problems.start_joint_q, reference
        arrays.lower, arrays.upper = work.problems.limits.float32
        arrays.best, arrays.searches = work.problems.best, work.problems.searches
        load_kernels_alone(CLIPS, device)
        self._begin, self._keep = (
            wp.launch(kernel, count, [clips, arrays], device=device, record_cmd=True) for kernel in (_begin, _keep)
        )

    def run(self, iterations: int, *number: int, marks: NDArray[np.bool_] | None = None) -> None:
        """Attempt marked frames from where they are, or the frames of `ClipArrays.number`."""
        with self._core.working:
            if marks is not None:
                self._clips.solved.assign(marks.astype(np.int32))
            self._number.host[:] = (*number, 0, 0, 0)[:3]
            self._number.push(3)
            self._begin.launch()
            self._attempt(iterations)
            self._keep.launch()

    def solve(self, frame: int, joint_q: Float64Array, iterations: int) -> tuple[Float64Array, float]:
        """Attempt one frame alone, from a configuration and drawn to it; return the frame and its cost."""
        marks, size = np.arange(len(self._clips.left)) == frame, len(joint_q)
        with self._core.working:
            for array in (self._clips.joint_q, self._arrays.reference):
                given: wp.array[Any] = wp.array(joint_q, dtype=array.dtype, device=array.device)
                wp.copy(array, given, dest_offset=frame * size, count=size)
        self.run(iterations, marks=marks)
        return self.read("joint_q")[frame], float(self.costs()[0][frame])

    def costs(self) -> tuple[Float64Array, NDArray[np.bool_]]:
        """Return costs of frames after their last attempt, 0 where all targets are met, and whether they are met."""
        with self._core.working:
            best, count = self._arrays.best, len(self._clips.left)
            met = (best.met.numpy()[:count] != 0).all(axis=1)
            return np.where(met, 0.0, best.cost.numpy()[:count].sum(axis=1, dtype=np.float64)), met

    def read(self, name: str) -> Any:
        """Return a copy of an array of `ClipArrays`."""
        with self._core.working:
            return getattr(self._clips, name).numpy().copy()

    def fitted(self) -> FittedClip:
        """Return the present configurations."""
        moved, joint_q = self.read("moved"), self.read("joint_q")
        joint_q[:, self._locked] = self._first[self._locked]  # as the caller has them, in float64
        return FittedClip(self._robot.complete_joint_q(joint_q)[: len(moved)], moved)

    def set_joint_q(self, joint_q: Float64Array) -> None:
        """Replace the configurations of all frames, which are all attempted again."""
        with self._core.working:
            wp.copy(self._clips.joint_q, wp.array(joint_q, device=self._clips.joint_q.device), count=joint_q.size)
            self._clips.left.fill_(1)


class DrawnSolver:
    """A solver of targets with a weak draw of all joints to a reference."""

    def __init__(self, robot: RobotModel, targets: tuple[Target, ...], setup: SolverSetup) -> None:
        first = robot.joint_qd_start
        drawn = [
            joint
            for joint in range(robot.joint_count)
            if joint not in robot.quaternion_starts and (robot.dof_active[first[joint] : first[joint + 1]] >= 0).any()
        ]
        self._posture = IKObjectivePosture(robot.mid_joint_q, joints=[robot.joint_names[joint] for joint in drawn])
        self._posture.priority = 0
        self._rows = int(sum(first[joint + 1] - first[joint] for joint in drawn))
        self.core = SolverCore(robot, targets, [self._posture], replace(setup, join=False))
        self.core.engine.bind_rows()
        lower, upper = robot.active_limit_lower[None], robot.active_limit_upper[None]
        self._limits = RequestedLimits(lower, upper, np.zeros_like(lower, dtype=bool))
        order = CallerOrder(robot, None)
        self.chooses = self.core.engine.name == "compiled"  # whether a solve chooses among attempts
        self._head = ResultHead(robot, order, self.core.row_labels(), self.core.engine.name, str(setup.device))

    def solve(self, batch: Batch, options: SolverOptions, reference: Float64Array, weight: float) -> IKResult:
        """Solve frames; `reference` is [1 or problems, coordinates], `weight` in 1/rad or 1/m."""
        self._draw(batch, reference, weight)
        result = self.core.solve(self._head, batch._replace(lines=None, targets=None), options)
        assert result is not None  # the numbers were sound before
        return result

    def passes(self, problem: ClipProblem, options: SolverOptions, weight: float) -> FramePasses | None:
        """Return the passes over all frames, from the middle of the ranges on; None for a faulty number."""
        count, middle = len(problem.clip), problem.robot.mid_joint_q[None]
        has_room = len(self._posture.data(JOINT_Q_REFERENCE)) >= count  # then one line is written to all
        self._draw(problem.batch, middle if has_room else np.repeat(middle, count, axis=0), weight)
        staged = self.core.attempts(problem.batch._replace(targets=None, limits=self._limits), options)
        if staged is None:
            return None
        with DEVICE_LOCK, KernelsFor():
            return FramePasses(problem, self.core, staged, self._posture.data(JOINT_Q_REFERENCE))

    def weigh(self, weight: float) -> None:
        """Set the weight of the draw, also between passes [1/rad or 1/m]."""
        self._posture.set_row_weights(np.full(self._rows, weight))

    def _draw(self, batch: Batch, reference: Float64Array, weight: float) -> None:
        self._posture.set_reference(reference)
        self.weigh(weight)
        if batch.targets is not None:
            self.core.targets.take(batch.targets)
