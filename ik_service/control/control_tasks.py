"""Objectives of a controller: pose targets, further objectives, and soft rows in their null space."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.control.tick.arrays import POSE, TickArrays, device_array
from ik_service.control.tick.closing import LOOP_WEIGHT
from ik_service.errors import EngineError
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.robots import CoordinateConstraint, DeviceModel, LoopConstraint, VelocityConstraint
from ik_service.solver.given.arrays import host_array
from ik_service.solver.given.targets import Target, pose_objective
from ik_service.solver.rows.binding import constraint_rows, require_contract
from objectives import IKObjective, IKObjectiveDamping, IKObjectivePosture, InputError
from objectives.expression.expression_objective import ExpressionObjective


@dataclass(frozen=True)
class WideData:
    """Location of an objective's data in a float64 array of the controller."""

    array: wp.array[Any]  # shape [lines, numbers of a line]
    first: int = 0  # first number of the field
    is_quaternion: bool = False  # the field is a quaternion, possibly a little off unit length


class ControlTasks:
    """Objectives of a controller, bound to its robot, and their data in float64."""

    def __init__(
        self,
        model: DeviceModel,
        targets: Sequence[Target],  # pose targets, checked
        further: Sequence[IKObjective],
        arrays: TickArrays,
        owner: object,
        *,
        tolerances: tuple[float, float],  # distance [m] and angle [rad] within which a target counts as met
        posture: Any,  # [joint_coord_count] or [robots, joint_coord_count]; None for none
        posture_weight: float,  # of the posture rows [units of length per rad or m]
        damping_weight: float,  # of the damping rows, in the same unit; 0 for none
    ) -> None:
        self._model, self.targets, self._tolerances = model, tuple(targets), tolerances
        # data in float64, by (number of the objective, name of the field)
        self.wide: dict[tuple[int, str], WideData] = {}
        # device array of the posture, float64 [1 or robots, joint_coord_count], or None
        self.posture: wp.array[Any] | None = None
        self.damping = -1  # number of the damping objective; -1 for none
        # all objectives: those of the targets, further tasks, loops, soft rows
        self.objectives: list[ExpressionObjective] = []
        for target in targets:
            self._add_target(target, arrays)
        tasks: list[IKObjective] = [*self.objectives, *further]
        # number of tasks, the first objectives, followed by the loops
        self.task_count, self.objectives = len(tasks), []
        for k, task in enumerate(tasks):
            self.objectives.append(self._bound(task, owner))
            self._require_motion(self.objectives[k], targets[k] if k < len(targets) else None)
        constraints = (*model.robot.every_constraint, *model.robot.velocity_constraints)
        self.objectives += [self._bound_constraint(one, owner) for one in constraints]
        # numbers of the robot's constraints: loops, constraints between coordinates, velocity constraints
        self.loops = range(self.task_count, len(self.objectives))
        self._add_soft_rows(arrays, posture, posture_weight, damping_weight)
        for objective in self.objectives[self.loops.stop :]:
            self._bound(objective, owner)

    def _bound(self, objective: IKObjective, owner: object) -> ExpressionObjective:
        """Bind an objective to the controller and its robot; EngineError if it cannot be compiled."""
        require_contract(objective)
        if not isinstance(objective, ExpressionObjective):
            name = type(objective).__name__
            raise EngineError(
                f"A controller takes objectives that can be compiled: {name} is not stated as expressions."
            )
        objective.bind_solver(owner)
        objective.bind_model(self._model)
        return objective

    def _bound_constraint(
        self, given: LoopConstraint | VelocityConstraint | CoordinateConstraint, owner: object
    ) -> ExpressionObjective:
        """Make and bind the rows of a constraint; InputError if no joint moves any row."""
        rows = self._bound(constraint_rows(given, LOOP_WEIGHT), owner)
        self._require_motion(rows, None, f"constraint '{given.name}'")
        return rows

    def _require_motion(self, objective: ExpressionObjective, target: Target | None, name: str = "") -> None:
        """Refuse a task without a (weighted) row moved by a joint: each weighted target has an island that judges."""
        support = objective.row_support(self._model)
        moved = np.asarray(support[:, self._model.robot.dof_active >= 0].any(axis=1))
        name = name or type(objective).__name__
        if target is not None:
            name = f"target '{target.link}'"
            weighted = np.asarray((np.atleast_2d(target.weights()).astype(np.float32) > 0.0).any(axis=0))
            if weighted.any() and moved.any() and not moved[weighted].any():
                moved, name = moved[weighted], f"the rows of {name} that have weights"
        if not moved.any():
            raise InputError(f"No joint that can move has anything to do with {name}. Leave it out, or unlock a joint.")

    def _add_target(self, target: Target, arrays: TickArrays) -> None:
        number, device, unit = len(self.objectives), self._model.device, self._model.robot.length_unit
        robots = arrays.targets.device.shape[0]
        poses: Any = arrays.targets.device.reshape((robots, -1))
        self.wide[number, "target_positions"] = WideData(poses, number * POSE)
        self.wide[number, "target_orientations_xyzw"] = WideData(poses, number * POSE + 3, is_quaternion=True)
        if target.offset is not None:
            self.wide[number, "offset"] = WideData(device_array(np.atleast_2d(target.offset), wp.float64, device))
        weights = np.atleast_2d(target.weights_in_metres(unit))
        deadband = None if target.frame is None else target.deadband(*self._tolerances)
        placeholder = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])
        self.objectives.append(pose_objective(target, *placeholder, weights, deadband))

    def _add_soft_rows(self, arrays: TickArrays, posture: Any, posture_weight: float, damping_weight: float) -> None:
        robot, unit = self._model.robot, self._model.robot.length_unit
        moved = np.zeros(robot.joint_dof_count, dtype=bool)
        for objective in self.objectives:
            moved |= objective.row_support(self._model).any(axis=0)
        if posture is not None and posture_weight > 0.0:
            moved[:] = True
            lines = np.atleast_2d(host_array("posture", posture))
            robots = arrays.joint_q.device.shape[0]
            if lines.shape[0] not in (1, robots) or lines.shape[1:] != (robot.joint_coord_count,):
                allowed = f"[{robot.joint_coord_count}] or [{robots}, {robot.joint_coord_count}]"
                raise InputError(f"posture has shape {list(np.shape(posture))}. Allowed: {allowed}.")
            self.posture = device_array(lines, wp.float64, self._model.device)
            self.wide[len(self.objectives), "joint_q_reference"] = WideData(self.posture)
            joints = _leading_joints(robot, moved)
            self.objectives.append(IKObjectivePosture(lines, weight=unit * posture_weight, joints=joints))
        if damping_weight > 0.0:
            self.wide[len(self.objectives), "joint_q_reference"] = WideData(arrays.joint_q.device)
            joints = _leading_joints(robot, moved)
            damping = IKObjectiveDamping(robot.mid_joint_q, weight=unit * damping_weight, joints=joints)
            damping.priority = 0  # it slows targets, too
            self.damping = len(self.objectives)
            self.objectives.append(damping)


def _leading_joints(robot: KinematicRobot, moved: NDArray[np.bool_]) -> list[str]:
    """Names of the leading joints of DOFs, without locked joints."""
    active = np.unique(robot.dof_active[moved & (robot.dof_active >= 0)])
    joints = np.searchsorted(robot.joint_qd_start, robot.active_dof[active], side="right") - 1
    return [robot.joint_names[joint] for joint in np.unique(joints)]
