"""Objectives that several test files use."""

import typing
from dataclasses import replace

import warp as wp

from objectives import IKObjective
from objectives.data_field import DataField
from objectives.element_table import Element
from objectives.expression import acos, atan2, cos, exp, log, maximum, sin, sqrt, where
from objectives.expression_objective import ExpressionObjective
from objectives.frame_algebra import dot, rotate
from objectives.robot_indices import BodyFrame
from objectives.statement.rows import RowGroup, RowInputs


@wp.kernel
@typing.no_type_check
def _height_residuals(
    body_q: wp.array2d[wp.transform],
    joint_q: wp.array2d[float],
    body: int,
    targets: wp.array[float],
    start_idx: int,
    problem_idx: wp.array[int],
    residuals_out: wp.array2d[float],
):
    i = wp.tid()
    residuals_out[i, start_idx] = wp.transform_get_translation(body_q[i, body])[2] - targets[problem_idx[i]]
    residuals_out[i, start_idx + 1] = joint_q[i, 0] * joint_q[i, 1]


class Height(IKObjective):
    """What a user writes in a hurry: rows and a kernel, nothing else."""

    def __init__(self, body, targets):
        self.body, self.targets = body, wp.array(targets, dtype=float, device="cpu")

    def residual_dim(self):
        return 2

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        wp.launch(
            _height_residuals,
            dim=body_q.shape[0],
            inputs=[body_q, joint_q, self.body, self.targets, start_idx, problem_idx],
            outputs=[residuals],
            device=body_q.device,
        )


def weighed_rows(inputs: RowInputs):
    """Rows of frame, coordinate, quaternion and a number of the robot."""
    frame, q = inputs.frames["a"], inputs.coordinates["q"]
    turned = rotate(inputs.quaternions_xyzw["turn"], frame.position)
    size = inputs.constants["size"]
    return [size * (turned[0] + q * frame.position[1]), size * q + inputs.data["shift"][0] * turned[2]]


APART = RowGroup(
    "apart",
    2,
    weighed_rows,
    frames=("a",),
    coordinates=("q",),
    quaternions=("turn",),
    data=(("shift", 1),),
    constants=("size",),
)
TOGETHER = replace(APART, name="together", summed=True)


class Weighed(ExpressionObjective):
    """Three elements on the floating robot, one of them on a body of its own frame and one static."""

    def __init__(self, group):
        super().__init__([DataField("Weighed", "shift", 3, [[0.5, 1.5, -1.0], [2.5, 3.5, 0.7]])], row_count=None)
        self.group = group

    def stated_elements(self, model):
        joint = model.joint_names.index("base")
        frames = ("d", BodyFrame(2, (0.1, 0.2, -0.3, 0.0, 0.0, 0.6, 0.8)), BodyFrame(-1, (0.4, 0.1, 0.2, 0, 0, 0, 1)))
        return [
            (
                self.group,
                [
                    Element((frame,), (dof,), (joint,), (k,), constants=(1.0 + k,))
                    for k, (frame, dof) in enumerate(zip(frames, (6, 9, 9), strict=True))
                ],
            )
        ]


def function_rows(inputs: RowInputs):
    """Rows with every function, away from the ends of their domains."""
    (x, y, z), q = inputs.frames["a"].position, inputs.coordinates["q"]
    upright = rotate(inputs.frames["a"].orientation_xyzw, (0.0, 0.0, 1.0))
    (shift,) = inputs.data["shift"]
    return [
        sin(3.0 * x + shift) + cos(q) * z,
        exp(-z) - log(dot((x, y, z), (x, y, z)) + 0.1),
        acos(0.9 * upright[2]) * abs(shift - y),
        atan2(y - shift, x + 4.0) + atan2(upright[0], upright[2] + 1.5),
    ]


FUNCTIONS = RowGroup("functions", 4, function_rows, frames=("a",), coordinates=("q",), data=(("shift", 1),))


def choice_rows(inputs: RowInputs):
    """Rows of two branches each, which meet nowhere: a step at one would be a mistake of the derivative."""
    (x, y, z), q = inputs.frames["a"].position, inputs.coordinates["q"]
    (shift,) = inputs.data["shift"]
    inside = (x < y) & (z >= shift) | (q > 0.5)
    root = sqrt(maximum(x, 0.1))  # Warp differentiates the branch that is not taken, too
    return [where(inside, x * y + 2.0, -z), where(q <= 0.0, q * z - 1.0, where(x > 0.1, root, 0.5 * y) + 1.0)]


CHOICES = RowGroup("choices", 2, choice_rows, frames=("a",), coordinates=("q",), data=(("shift", 1),))


class Functions(ExpressionObjective):
    """Rows with every function, of a link and a DOF."""

    group = FUNCTIONS

    def __init__(self, link="panda_hand", dof=1, shift=(0.3,), weight=1.0):
        super().__init__([DataField("Functions", "shift", 1, shift)], row_count=self.group.row_count, weight=weight)
        self.link, self.dof = link, dof

    def stated_elements(self, model):
        return [(self.group, [Element((self.link,), (self.dof,), data_columns=(0,))])]


class Choices(Functions):
    """Rows that are one thing or another."""

    group = CHOICES
