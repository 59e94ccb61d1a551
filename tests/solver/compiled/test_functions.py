"""Objectives with functions and choices in a solve: both engines find them met, judged by the host."""

import numpy as np

from ik_service import SolverOptions
from ik_service.mechanism.transforms import quaternion_rotate
from objectives.data_field import DataField
from objectives.expression import atan2, cos, exp, sin, sqrt, where
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import rotate
from objectives.expression.rows import RowGroup
from tests.objectives.conftest import scene
from tests.solver.conftest import EACH_ENGINE, Reachable, cpu_solver

COUNT, TOLERANCE = 200, 1e-3  # [rad]


def tilt_rows(inputs):
    """How far the hand leans from upright, less a tilt that depends on where it is; and its first joint's swing."""
    frame, q = inputs.frames["link"], inputs.coordinates["q"]
    x, y, z = rotate(frame.orientation_xyzw, (0.0, 0.0, 1.0))
    tilt = where((frame.position[0] > 0.0) & (frame.position[2] >= 0.3), inputs.data["tilt"][0], 2.5)
    return [atan2(sqrt(x * x + y * y + 1e-12), z) - tilt, 0.01 * (sin(q) * cos(q) + exp(-q * q) - 1.0)]


TILT = RowGroup("tilt", 2, tilt_rows, frames=("link",), coordinates=("q",), data=(("tilt", 1),))


class Tilt(ExpressionObjective):
    """Lean the hand."""

    def __init__(self, tilts):
        super().__init__([DataField("Tilt", "tilt", 1, tilts)], row_count=2)

    def stated_elements(self, model):
        return [(TILT, [Element(("panda_hand",), (0,), data_columns=(0,))])]


@EACH_ENGINE
def test_a_tilt_is_held_beside_a_position(engine):
    robot = scene("fixed").robot
    problems = Reachable.draw(robot, ["panda_hand"], COUNT, random_seed=9)
    ahead = (problems.positions[:, 0, 0] > 0.05) & (problems.positions[:, 0, 2] > 0.35)
    tilts = np.random.default_rng(1).uniform(1.2, 2.0, (COUNT, 1))
    rows = Tilt(tilts)
    rows.set_row_tolerances([TOLERANCE, np.inf])
    options = SolverOptions(seeds=32)
    solver = cpu_solver(robot, ["panda_hand"], objectives=[rows], engine=engine, options=options)
    result = solver.solve(problems.positions)
    poses = robot.forward_kinematics(result.joint_q, ["panda_hand"])
    x, y, z = quaternion_rotate(poses.orientations_xyzw[:, 0], np.tile([0.0, 0.0, 1.0], (COUNT, 1))).T
    leaning = np.arctan2(np.sqrt(x * x + y * y + 1e-12), z)
    inside = (poses.positions[:, 0, 0] > 0.0) & (poses.positions[:, 0, 2] >= 0.3)
    wanted = np.where(inside, np.float32(tilts[:, 0]), 2.5)
    met = np.linalg.norm(poses.positions[:, 0] - problems.positions[:, 0], axis=1) <= 1e-3
    np.testing.assert_array_equal(result.success, met & (np.abs(leaning - wanted) <= np.float32(TOLERANCE)))
    assert result.success[ahead].mean() > 0.8
    assert 10 < ahead.sum() < COUNT - 10
    assert result.success.any()
