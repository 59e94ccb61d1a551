"""Objectives that several test files use."""

import typing
from dataclasses import replace

import numpy as np
import warp as wp

from objectives import IKObjective
from objectives.data_field import DataField
from objectives.expression import acos, atan2, cos, exp, log, maximum, sin, sqrt, where
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import dot, rotate, subtract
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import BodyFrame


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


INPUTS = {"frames": ("a",), "coordinates": ("q",), "data": (("shift", 1),)}
APART = RowGroup("apart", 2, weighed_rows, **INPUTS, quaternions=("turn",), constants=("size",))
TOGETHER = replace(APART, name="together", summed=True)


class Weighed(ExpressionObjective):
    """Three elements on the floating robot, one of them on a body of its own frame and one static."""

    def __init__(self, group):
        super().__init__([DataField("Weighed", "shift", 3, [[0.5, 1.5, -1.0], [2.5, 3.5, 0.7]])], row_count=None)
        self.group = group

    def stated_elements(self, model):
        joint = model.joint_names.index("base")
        frames = ("d", BodyFrame(2, (0.1, 0.2, -0.3, 0.0, 0.0, 0.6, 0.8)), BodyFrame(-1, (0.4, 0.1, 0.2, 0, 0, 0, 1)))
        places = enumerate(zip(frames, (6, 9, 9), strict=True))
        return [
            (
                self.group,
                [Element((frame,), (dof,), (joint,), (k,), constants=(1.0 + k,)) for k, (frame, dof) in places],
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


FUNCTIONS = RowGroup("functions", 4, function_rows, **INPUTS)


def choice_rows(inputs: RowInputs):
    """Rows of two branches each, which meet nowhere: a step at one would be a mistake of the derivative."""
    (x, y, z), q = inputs.frames["a"].position, inputs.coordinates["q"]
    (shift,) = inputs.data["shift"]
    inside = (x < y) & (z >= shift) | (q > 0.5)
    root = sqrt(maximum(x, 0.1))  # Warp differentiates the branch that is not taken, too
    return [where(inside, x * y + 2.0, -z), where(q <= 0.0, q * z - 1.0, where(x > 0.1, root, 0.5 * y) + 1.0)]


CHOICES = RowGroup("choices", 2, choice_rows, **INPUTS)


class Functions(ExpressionObjective):
    group = FUNCTIONS

    def __init__(self, link="panda_hand", dof=1, shift=(0.3,), weight=1.0):
        super().__init__([DataField("Functions", "shift", 1, shift)], row_count=self.group.row_count, weight=weight)
        self.link, self.dof = link, dof

    def stated_elements(self, model):
        return [(self.group, [Element((self.link,), (self.dof,), data_columns=(0,))])]


class Choices(Functions):
    group = CHOICES


def depth_rows(inputs: RowInputs):
    """A row that has no value below 5 m."""
    return [maximum(log(inputs.frames["a"].position[2] - 5.0) + 1.0, 0.0)]


DEPTHS = RowGroup("depths", 1, depth_rows, frames=("a",))


class Depths(ExpressionObjective):
    def __init__(self, link):
        super().__init__([], row_count=1)
        self.link = link

    def stated_elements(self, model):
        return [(DEPTHS, [Element((self.link,))])]


def sphere_rows(inputs: RowInputs):
    """How much too near two spheres are [m]."""
    arm = subtract(inputs.frames["a"].position, inputs.frames["b"].position)
    distance = sqrt(dot(arm, arm) + 1e-8)
    return [maximum(inputs.data["margin"][0] + inputs.constants["radii"] - distance, 0.0)]


SPHERES = RowGroup("spheres", 1, sphere_rows, frames=("a", "b"), data=(("margin", 1),), constants=("radii",))


def sphere_pairs(robot, count, *, radii=(0.06, 0.12), apart=2):
    """Spheres on bodies that are so far apart in the robot's order: elements of `Spheres`."""
    rng, found = np.random.default_rng(0), []
    bodies = [(a, b) for a in range(-1, robot.body_count) for b in range(-1, a + 1 - apart)]
    for _ in range(count):
        frames = [BodyFrame(body, (*rng.uniform(-0.06, 0.06, 3), 0.0, 0.0, 0.0, 1.0)) for body in rng.choice(bodies)]
        found.append(Element(tuple(frames), data_columns=(0,), constants=(float(rng.uniform(*radii)),)))
    return found


class Spheres(ExpressionObjective):
    """Keep spheres apart: as many alike rows as there are pairs of them."""

    def __init__(self, elements, margin=0.02, weight=1.0):
        super().__init__([DataField("Spheres", "margin", 1, [margin])], row_count=len(elements), weight=weight)
        self.elements = elements

    def stated_elements(self, model):
        return [(SPHERES, self.elements)]


def sight_rows(inputs: RowInputs):
    """Rows of two frames that a common motion changes, one of them on a tool, with numbers of each element."""
    a, b = inputs.frames["a"], inputs.frames["b"]
    sight, (level,) = rotate(a.orientation_xyzw, (0.0, 0.6, 0.8)), inputs.data["level"]
    return [dot(sight, b.position) - level, level * a.position[2] + b.orientation_xyzw[0]]


SIGHTS = RowGroup(
    "sights", 2, sight_rows, frames=("a", "b"), offsets=(("b", "tool"),), data=(("level", 1), ("tool", 7))
)


class Sights(ExpressionObjective):
    """Alike rows whose data differ from element to element."""

    def __init__(self, robot, count):
        rng = np.random.default_rng(4)
        tools = np.hstack([rng.normal(0.0, 0.1, (3, 3)), np.tile([0.0, 0.6, 0.0, 0.8], (3, 1))])
        fields = [
            DataField("Sights", "level", count, rng.uniform(0.5, 1.5, count)),
            DataField("Sights", "tool", 21, tools.ravel(), quaternion_columns=(3, 10, 17)),
        ]
        super().__init__(fields, row_count=2 * count, row_weights=rng.uniform(0.5, 2.0, 2 * count))
        self.elements = []
        for k in range(count):
            turn, body = rng.normal(size=4), int(rng.integers(robot.body_count))
            frame = BodyFrame(body, (*rng.normal(0.0, 0.1, 3), *turn / np.linalg.norm(turn)))
            self.elements.append(Element((frame, int(rng.integers(robot.body_count))), data_columns=(k, 7 * (k % 3))))

    def stated_elements(self, model):
        return [(SIGHTS, self.elements)]
