"""Objective for manipulability: a frame can move in all directions."""

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from objectives.data_field import DataField
from objectives.errors import InputError
from objectives.expression import Scalar, log, maximum, sqrt
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import Vector, cross, rotate, scale, subtract
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import BodyFrame, FloatArray, IKModel, RobotIndices

Motion = Literal["pose", "position", "orientation"]

OFFSET, PER_LENGTH, MOST_SHIFT, MOST_TURN = "offset", "per_length", "most_shift", "most_turn"
LEAST_PIVOT = 1e-12  # squared: below, the frame counts as unable to move
LEAST_ROW2 = 1e-2  # squared: keeps rows away from 0, where the derivative is infinite
PIVOT_MARGIN = 0.5  # added to the bound of the logarithm of a pivot, so that rows stay above 1
JOINTS_MOST = 40  # rows of more joints take long to compile
UP: Vector = (0.0, 0.0, 1.0)
PARTS: dict[Motion, slice] = {"pose": slice(0, 6), "position": slice(0, 3), "orientation": slice(3, 6)}


def _columns(inputs: RowInputs, slides: tuple[bool, ...], part: slice) -> list[tuple[Scalar, ...]]:
    """State the columns of the frame's Jacobian, one per joint, with velocities over the length of the chain."""
    columns: list[tuple[Scalar, ...]] = []
    for k, is_slide in enumerate(slides):
        joint = inputs.frames[f"joint{k}"]
        axis = rotate(joint.orientation_xyzw, UP)
        arm = axis if is_slide else cross(axis, subtract(inputs.frames["link"].position, joint.position))
        turn: Vector = (0.0, 0.0, 0.0) if is_slide else axis
        column: tuple[Scalar, ...] = (*scale(inputs.constants[PER_LENGTH], arm), *turn)
        columns.append(column[part])
    return columns


def _log_pivots(rows: Sequence[Sequence[Scalar]]) -> list[Scalar]:
    """State the logarithms of the diagonal of the Cholesky factor of J J^T, by Gram-Schmidt on the rows of J.

    J J^T itself would square the numbers and halve the digits.
    """
    logarithms: list[Scalar] = []
    directions: list[list[Scalar]] = []
    for row in rows:
        rest = list(row)
        for direction in directions:
            along = _inner(rest, direction)
            rest = [a - along * b for a, b in zip(rest, direction, strict=True)]
        length2 = maximum(_inner(rest, rest), LEAST_PIVOT)
        logarithms.append(0.5 * log(length2))
        inverse = 1.0 / sqrt(length2)
        directions.append([inverse * a for a in rest])
    return logarithms


def _inner(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    total: Scalar = 0.0
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def _rows(inputs: RowInputs, slides: tuple[bool, ...], part: slice) -> Sequence[Scalar]:
    rows = list(zip(*_columns(inputs, slides, part), strict=True))
    most = [inputs.constants[name] for name in (MOST_SHIFT, MOST_TURN) for _ in range(3)][part]
    pairs = zip(most, _log_pivots(rows), strict=True)
    return [sqrt(maximum(2.0 * (limit - pivot), LEAST_ROW2)) for limit, pivot in pairs]


@cache
def _group(slides: tuple[bool, ...], motion: Motion, *, offset: bool) -> RowGroup:
    part = PARTS[motion]
    kinds = "".join("s" if is_slide else "t" for is_slide in slides)
    return RowGroup(
        f"manipulability_{motion}_{kinds}{'_offset' if offset else ''}",
        part.stop - part.start,
        partial(_rows, slides=slides, part=part),
        frames=("link", *(f"joint{k}" for k in range(len(slides)))),
        offsets=(("link", OFFSET),) if offset else (),
        constants=(PER_LENGTH, MOST_SHIFT, MOST_TURN),
        data=((OFFSET, 7),) if offset else (),
    )


class IKObjectiveManipulability(ExpressionObjective):
    """Keep the manipulability of a frame high, away from singular configurations.

    Yoshikawa's manipulability is w = sqrt(det(J J^T)), J the Jacobian of the frame by the joints above the frame, with
    velocities over the length L of the chain [1/m]. l_i is the diagonal of the Cholesky factor of J J^T; its product is
    w. residual = weight row_weights sqrt(2 (b_i - log l_i)), 3 or 6 rows [1 times weight], b_i a bound of log l_i plus
    1/2: half the squared residual of weight 1 is a constant minus log(w). Rows stay above 0. With priority 1, the
    default, this objective acts in the null space of targets.

    Args:
        link: Name of the link; an int is a body index.
        motion: Motions that count: "pose", "position" or "orientation". Fewer joints than rows are refused: the frame
            could never move in all directions.
        joints: Names of the joints that count, with one DOF each, on the path to the link; None for all, also locked
            joints and mimic joints, which count as if they moved independently.
        offset: T_link_tcp, position [m] and quaternion xyzw, shape [7] or [problem_count, 7].
        row_weights: Weights of the rows, shape [3 or 6] or [problem_count, 3 or 6]; with different weights the cost is
            no function of w.
        weight: Factor of all rows.
    """

    def __init__(
        self,
        link: str | int,
        *,
        motion: Motion = "pose",
        joints: Sequence[str] | None = None,
        offset: Any = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        if motion not in PARTS:
            raise InputError(f"{type(self).__name__}: motion is {motion!r}; allowed: {', '.join(PARTS)}.")
        part = PARTS[motion]
        owner, fields = type(self).__name__, list[DataField]()
        if offset is not None:
            fields.append(DataField(owner, OFFSET, 7, offset, quaternion_columns=(3,)))
        super().__init__(fields, row_count=part.stop - part.start, row_weights=row_weights, weight=weight)
        self._link, self._motion, self._joints, self._has_offset = link, motion, joints, offset is not None

    @property
    def link(self) -> str | int:
        """Link of the frame, by name, or a body by index."""
        return self._link

    def set_offset(self, offset: Any) -> None:
        """Replace T_link_tcp, shape [7] or [problem_count, 7]; UnknownNameError for an objective without offset."""
        self.set_data(OFFSET, offset)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State the rows of one frame; InputError for fewer joints above the link than rows, or too many."""
        robot = RobotIndices(model)
        body, link_offset = robot.frame(self._link)
        counted = robot.select_joints(self._joints, type(self).__name__)
        axes: FloatArray = model.joint_axis.numpy().astype(np.float64)
        way = robot.way_to(body)
        carriers = [joint for joint in way if joint in counted and len(robot.dofs(joint)) == 1]
        rows = PARTS[self._motion].stop - PARTS[self._motion].start
        if len(carriers) < rows:
            raise InputError(
                f"{type(self).__name__}: {len(carriers)} joints of one DOF carry '{self._link}', so that it can never "
                f"move in all {rows} directions; allowed: motions with as many rows, and links behind more joints."
            )
        if len(carriers) > JOINTS_MOST:
            raise InputError(
                f"{type(self).__name__}: {len(carriers)} joints carry '{self._link}'; allowed: up to {JOINTS_MOST}. "
                "Name those that count with joints=."
            )
        slides = tuple(bool(robot.dof_dim[joint, 0]) for joint in carriers)
        frames = [_axis_frame(int(robot.child[joint]), axes[robot.qd_start[joint]]) for joint in carriers]
        between = [joint for joint in way if joint > carriers[0]]
        steps: FloatArray = model.joint_X_p.numpy()[between, :3].astype(np.float64)
        length = float(np.linalg.norm(steps, axis=1).sum() + np.linalg.norm(link_offset[:3]))
        per_length = 1.0 / length if length > 0.0 else 1.0
        shifts = sum(per_length**2 if is_slide else 1.0 for is_slide in slides)
        bounds = (0.5 * math.log(shifts) + PIVOT_MARGIN, 0.5 * math.log(max(1, slides.count(False))) + PIVOT_MARGIN)
        group = _group(slides, self._motion, offset=self._has_offset)
        columns = (0,) * len(group.data)
        return [(group, [Element((self._link, *frames), data_columns=columns, constants=(per_length, *bounds))])]


def _axis_frame(body: int, axis: FloatArray) -> BodyFrame:
    """Give a frame on a body with a given z axis, by the smallest rotation."""
    x, y, z = map(float, axis / np.linalg.norm(axis))
    w = 1.0 + z
    if w < 1e-9:
        return BodyFrame(body, (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0))
    size = math.sqrt(w * w + x * x + y * y)
    return BodyFrame(body, (0.0, 0.0, 0.0, -y / size, x / size, 0.0, w / size))
