"""Conversion of an objective of a request to checked data for the solver."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ik_service.robots import RobotModel
from ik_service.service.documents.columns import (
    check_directions,
    check_unit_quaternions,
    check_weights,
    read_row_or_rows,
)
from ik_service.service.documents.envelope import check_link
from ik_service.service.documents.frames import read_offset
from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.queue.objective_data import ROW_WEIGHTS, FloatArray, ObjectiveData
from ik_service.service.schema.fields import NumericColumn, numeric_columns
from ik_service.service.schema.limits import MAX_VALUE, MIN_ROW_WEIGHT
from ik_service.service.schema.objective import ManipulabilityObjective, Objective
from objectives.errors import InputError


def read_objective(spec: Objective, robot: RobotModel, start: FloatArray | None, pointer: str) -> ObjectiveData:
    """Return the data of an objective; its names and numbers are checked.

    `start` is `initial_joint_q` of the request, shape [problem_count, joint_coord_count]. FaultyFieldsError, with the
    JSON pointer, for an unknown name or a forbidden number; TooManyProblemsError for too many rows.
    """
    names = tuple(_names(spec, robot, pointer))
    if spec.needs_masses and not robot.body_masses:
        detail = f"Robot '{robot.name}' has no masses; its file must give links an <inertial> with a <mass>."
        raise faulty_field(f"{pointer}/type", "no_masses", detail)
    data = dict(_columns(spec, robot, start, pointer))
    data[ROW_WEIGHTS] = _read_weights(spec, robot, pointer)
    return ObjectiveData(spec.type, spec.objective_class, names, data, spec.priority)


def row_counts(objective: ObjectiveData, pointer: str) -> Iterator[tuple[str, int]]:
    """Yield the JSON pointer and row count of each column of an objective with one row per problem."""
    for name, column in objective.data.items():
        if column.ndim == 2:
            yield f"{pointer}/{name}", len(column)


def _names(spec: Objective, robot: RobotModel, pointer: str) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    for field in ("link", "reference_link"):
        link = getattr(spec, field, None)
        if link is not None:
            check_link(link, robot, f"{pointer}/{field}")
            yield field, link
    if isinstance(spec, ManipulabilityObjective):
        yield "motion", spec.motion
    joints = getattr(spec, "joints", None)
    if joints is not None:
        known = frozenset(robot.joint_names)
        for k, name in enumerate(joints):
            if name not in known:
                detail = f"Joint '{name}' is not in robot '{robot.name}'. Joints: {', '.join(robot.joint_names)}."
                raise faulty_field(f"{pointer}/joints/{k}", "unknown_joint", detail)
        yield "joints", tuple(joints)


def _columns(
    spec: Objective, robot: RobotModel, start: FloatArray | None, pointer: str
) -> Iterator[tuple[str, FloatArray]]:
    """Yield the numeric columns of an objective except its weights."""
    for name, column in numeric_columns(type(spec)).items():
        value, place = getattr(spec, name), f"{pointer}/{name}"
        if column.kind == "weights":
            continue
        if value is not None or type(spec).model_fields[name].is_required():
            yield name, _read_column(column, value, robot, place)
        elif column.kind == "configuration":
            yield name, _start_configuration(robot, start, place)
    offset = getattr(spec, "offset", None)
    if offset is not None:
        yield "offset", read_offset(offset, f"{pointer}/offset")


def _read_column(column: NumericColumn, value: Any, robot: RobotModel, pointer: str) -> FloatArray:
    own_width = robot.joint_dof_count if column.kind == "dof_values" else robot.joint_coord_count
    width = own_width if column.width is None else column.width
    numbers = read_row_or_rows(list(value) if isinstance(value, tuple) else value, width, pointer)
    if column.kind == "direction":
        check_directions(numbers, pointer)
    elif column.kind == "quaternion":
        check_unit_quaternions(numbers, pointer)
    elif column.kind == "configuration":
        for first in robot.quaternion_starts.values():
            check_unit_quaternions(numbers[..., first : first + 4], pointer)
    return numbers


def _start_configuration(robot: RobotModel, start: FloatArray | None, pointer: str) -> FloatArray:
    """Return the initial configurations: default of a column of configurations."""
    if start is None:
        raise faulty_field(pointer, "missing_field", "Give the configuration before, here or in /initial_joint_q.")
    try:
        return robot.clamp_joint_q(start).reshape(start.shape)
    except InputError as error:
        raise faulty_field("/initial_joint_q", "invalid_value", str(error)) from error


def _read_weights(spec: Objective, robot: RobotModel, pointer: str) -> FloatArray:
    """Return the weights of the rows, multiplied by the weight of the objective."""
    rows = spec.row_count(robot)
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
