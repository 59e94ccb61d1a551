"""Rows of constraints in residual packing, their Jacobian and second time derivative; rows that both packings share.

Rows of velocity constraints and of coordinate constraints are the same in both packings, one row each. The row of a
velocity constraint is linear in the twists of two frames; its value is 0, and its Jacobian maps velocities to rates.
Rows of limits follow: the distance of a closing joint beyond its limits, 0 inside. All rows are the statements of which
solvers and controllers make their code.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ik_service.constraints.linear_algebra import BoolArray
from ik_service.kinematics.bound_rows import RowValues, bound_rows
from ik_service.kinematics.host_poses import blocks_of, with_ancestors
from ik_service.kinematics.host_tangent import body_motion, body_rate
from ik_service.mechanism.kinematic_robot import KinematicRobot, host_model
from ik_service.mechanism.transforms import Float64Array
from ik_service.mechanism.trees import Constraint, constraints_of
from ik_service.mechanism.velocities import VelocityConstraint
from objectives.expression.element_table import Element
from objectives.expression.kernels import frame_column
from objectives.expression.rows import ROW_WEIGHTS, RowGroup
from objectives.model import BodyFrame, RobotIndices
from objectives.tasks.frame_objective import body_frame
from objectives.tasks.velocity import TWIST, speed_group

Groups = Sequence[tuple[RowGroup, Sequence[Element]]]


def stated_groups(robot: KinematicRobot, constraints: Iterable[Constraint]) -> list[Groups]:
    """State each constraint: the row group of its rows, and that of its limits if a closing joint has some."""
    found: list[Groups] = []
    for one in constraints:
        groups = one.rows().stated_elements(host_model(robot))
        if isinstance(one, VelocityConstraint):
            elements = [replace(element, data_columns=(0,)) for element in groups[0][1]]
            groups = [(speed_group(one.parts[0].kind), elements)]
        found.append(groups)
    return found


def loop_frames(robot: KinematicRobot) -> list[tuple[BodyFrame, BodyFrame]]:
    """Give the frame and the reference frame of each loop."""
    indices = RobotIndices(host_model(robot))
    return [
        (
            body_frame(indices, one.link, np.array(one.offset)),
            body_frame(indices, one.reference_link, np.array(one.reference_offset)),
        )
        for one in robot.loops
    ]


class BoundConstraints:
    """Rows of constraints, without weights."""

    def __init__(self, robot: KinematicRobot, groups: Groups) -> None:
        self.robot, self._rows = robot, bound_rows(robot, groups)
        bodies = [
            table.integers[:, frame_column(k)] for table in self._rows.tables for k in range(len(table.group.frames))
        ]
        self._needed = with_ancestors(robot, np.concatenate([*bodies, [-1]]))
        self.count = self._rows.size  # number of rows
        self._data = {ROW_WEIGHTS: np.ones((1, self.count)), TWIST: np.zeros((1, 6))}

    def rows(self, joint_q: Float64Array) -> Float64Array:
        """Give the rows, 0 for velocity constraints, shape [n, rows]."""
        return self._rows.rows(joint_q, self.robot.body_poses(joint_q), self._data)

    def values(self, joint_q: Float64Array) -> RowValues:
        """Give the rows, and their derivatives by the DOFs."""
        n = len(joint_q)
        found = RowValues(np.zeros((n, self.count)), np.zeros((n, self.count, self.robot.joint_dof_count)))
        for block in blocks_of(n):
            one = RowValues(*(part[block] for part in found))
            self._rows.values(body_motion(self.robot, joint_q[block], self._needed), self._data, one)
            one.jacobian[~np.isfinite(one.jacobian)] = 0.0  # a screw with opposite axes has no angle
        return found

    def jacobian_dot(self, joint_q: Float64Array, joint_qd: Float64Array) -> Float64Array:
        """Give the time derivative of the derivatives at joint velocities, shape [n, rows, joint_dof_count]."""
        motion = body_motion(self.robot, joint_q)
        found = self._rows.rates(motion, self._data, body_rate(self.robot, motion, joint_qd)).jacobian
        return np.where(np.isfinite(found), found, 0.0)


class BoundedRows(BoundConstraints):
    """Rows of a robot's constraints, then rows of limits of closing joints."""

    def __init__(self, robot: KinematicRobot) -> None:
        stated = stated_groups(robot, constraints_of(robot))
        limits = [(k, group) for k, groups in enumerate(stated) for group in groups[1:]]
        super().__init__(robot, [*(groups[0] for groups in stated), *(group for _, group in limits)])
        # index of the constraint, for each row of limits
        self.constraint = [k for k, (group, _) in limits for _ in range(group.row_count)]
        self.equation_count = self.count - len(self.constraint)  # number of rows of the constraints

    def enabled(self, on: BoolArray, constraints: BoolArray) -> BoolArray:
        """Give a mask of enabled rows, from masks of the constraints' rows and of constraints, [n, constraints]."""
        return np.concatenate([on, constraints[:, self.constraint]], axis=1) if self.constraint else on

    def errors(self, joint_q: Float64Array, count: int) -> Float64Array:
        """Give the largest distance beyond a limit, by constraint, 0 without limits, shape [n, count]."""
        found = np.zeros((len(joint_q), count))
        if self.constraint:
            beyond = self.rows(joint_q)[:, self.equation_count :]
            np.maximum.at(found.T, self.constraint, np.abs(beyond).T)
        return found
