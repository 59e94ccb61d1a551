"""From the objectives of a request's envelope to the checked columns that go to the solver."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ik_service.api.documents.columns import check_directions, check_unit_quaternions, check_weights, read_row_or_rows
from ik_service.api.documents.frames import check_link, read_offset
from ik_service.api.errors.exceptions import faulty_field
from ik_service.api.schema.limits import MAX_VALUE, MIN_ROW_WEIGHT
from ik_service.api.schema.objective import DampingObjective, JointObjective, Objective
from ik_service.batching.requests.objective_data import ROW_WEIGHTS, ObjectiveColumns
from ik_service.batching.requests.solve_request import FloatArray
from ik_service.robots import RobotModel
from ik_service.robots.joint_type import JointType
from objectives.errors import InputError

_VECTORS = ("target_positions", "target_points", "axis", "target_axis", "points", "normals", "directions")
_DIRECTIONS = ("axis", "target_axis", "normals", "directions")
_ORIENTATIONS, _REFERENCE = "target_orientations_xyzw", "joint_q_reference"
_ROW_COUNTS = {"relative_pose": 6, "plane": 1, "line": 2}
"""Rows of kinds that have another number than 3, but for those about joints."""


def read_objective(spec: Objective, robot: RobotModel, start: FloatArray | None, pointer: str) -> ObjectiveColumns:
    """Return an objective whose names the robot has and whose numbers are allowed.

    Args:
        spec: The objective as it came.
        robot: The robot.
        start: `initial_joint_q` of the request, shape [problem_count, joint_coord_count].
        pointer: JSON pointer of the objective.

    Raises:
        FaultyFieldsError: A name or a number that is not allowed.
        TooManyProblemsError: Too many rows.
    """
    names = tuple(_names(spec, robot, pointer))
    if spec.type == "center_of_mass" and not robot.body_masses:
        detail = f"Robot '{robot.name}' has no masses; its file must give links an <inertial> with a <mass>."
        raise faulty_field(f"{pointer}/type", "no_masses", detail)
    data = dict(_columns(spec, pointer))
    if isinstance(spec, JointObjective):
        data[_REFERENCE] = _read_reference(spec, robot, start, f"{pointer}/{_REFERENCE}")
    data[ROW_WEIGHTS] = _read_weights(spec, robot, pointer)
    return ObjectiveColumns(spec.type, names, data)


def row_counts(objective: ObjectiveColumns, pointer: str) -> Iterator[tuple[str, int]]:
    """Give the columns of an objective that have a row per problem: JSON pointer and number of rows."""
    for name, column in objective.data.items():
        if column.ndim == 2:
            yield f"{pointer}/{name}", len(column)


def _names(spec: Objective, robot: RobotModel, pointer: str) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    for field in ("link", "reference_link"):
        link = getattr(spec, field, None)
        if link is not None:
            check_link(link, robot, f"{pointer}/{field}")
            yield field, link
    if isinstance(spec, JointObjective) and spec.joints is not None:
        for k, name in enumerate(spec.joints):
            if name not in robot.joint_names:
                detail = f"Joint '{name}' is not in robot '{robot.name}'. Joints: {', '.join(robot.joint_names)}."
                raise faulty_field(f"{pointer}/joints/{k}", "unknown_joint", detail)
        yield "joints", tuple(spec.joints)


def _columns(spec: Objective, pointer: str) -> Iterator[tuple[str, FloatArray]]:
    """The columns of fixed width that an objective of this type has."""
    for name in _VECTORS:
        if name in type(spec).model_fields:
            value: Any = getattr(spec, name)
            column = read_row_or_rows(list(value) if isinstance(value, tuple) else value, 3, f"{pointer}/{name}")
            if name in _DIRECTIONS:
                check_directions(column, f"{pointer}/{name}")
            yield name, column
    if _ORIENTATIONS in type(spec).model_fields:
        column = read_row_or_rows(getattr(spec, _ORIENTATIONS), 4, f"{pointer}/{_ORIENTATIONS}")
        check_unit_quaternions(column, f"{pointer}/{_ORIENTATIONS}")
        yield _ORIENTATIONS, column
    offset = getattr(spec, "offset", None)
    if offset is not None:
        yield "offset", read_offset(offset, f"{pointer}/offset")


def _read_reference(spec: JointObjective, robot: RobotModel, start: FloatArray | None, pointer: str) -> FloatArray:
    value = getattr(spec, _REFERENCE)
    if value is None and isinstance(spec, DampingObjective):
        if start is None:
            raise faulty_field(pointer, "missing_field", "Give the configuration before, here or in /initial_joint_q.")
        try:
            return robot.clamp_joint_q(start)  # where the solve starts
        except InputError as error:
            raise faulty_field("/initial_joint_q", "invalid_value", str(error)) from error
    reference = read_row_or_rows(value, robot.joint_coord_count, pointer)
    for joint, joint_type in enumerate(map(JointType, robot.joint_type)):
        if joint_type.quaternion_offset is not None:
            first = int(robot.joint_q_start[joint]) + joint_type.quaternion_offset
            check_unit_quaternions(reference[..., first : first + 4], pointer)
    return reference


def _read_weights(spec: Objective, robot: RobotModel, pointer: str) -> FloatArray:
    """Weights of the rows, with the weight of the whole in them."""
    rows = _ROW_COUNTS.get(spec.type, 3)
    if isinstance(spec, JointObjective):
        chosen = [joint for joint, name in enumerate(robot.joint_names) if spec.joints is None or name in spec.joints]
        rows = int(np.diff(robot.joint_qd_start)[chosen].sum())
    weights: FloatArray = np.ones(rows)
    if spec.row_weights is not None:
        weights = read_row_or_rows(spec.row_weights, rows, f"{pointer}/{ROW_WEIGHTS}")
        check_weights(weights, f"{pointer}/{ROW_WEIGHTS}")
    weights = spec.weight * weights
    if weights.max(initial=0.0) > MAX_VALUE:
        raise faulty_field(f"{pointer}/weight", "out_of_range", f"Times row_weights it is above {MAX_VALUE:g}.")
    if ((weights < MIN_ROW_WEIGHT) & (weights != 0.0)).any():
        raise faulty_field(f"{pointer}/weight", "out_of_range", f"Times row_weights it is below {MIN_ROW_WEIGHT:g}.")
    return weights
