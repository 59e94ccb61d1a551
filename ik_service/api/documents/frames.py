"""Checks of links, tool frames and numbers of rows, for the documents of several routes."""

import numpy as np

from ik_service.api.documents.columns import check_unit_quaternions, read_row_or_rows
from ik_service.api.errors.exceptions import faulty_field
from ik_service.api.schema.fields import Offset
from ik_service.batching.requests.target_keys import FloatArray
from ik_service.robots import RobotModel
from objectives.errors import UnknownNameError


def check_link(name: str, robot: RobotModel, pointer: str) -> None:
    """Refuse a link that is not in the robot.

    Raises:
        FaultyFieldsError: The robot has no such link.
    """
    try:
        robot.link_frame(name)
    except UnknownNameError as error:
        raise faulty_field(pointer, "unknown_link", str(error)) from error


def read_offset(offset: Offset, pointer: str) -> FloatArray:
    """Return a tool frame in the link frame: position [m] and unit quaternion xyzw, shape [7] or [n, 7].

    Raises:
        FaultyFieldsError: Not rows of numbers within the limits.
        TooManyProblemsError: Too many rows.
    """
    position: FloatArray = np.zeros(3)
    orientation: FloatArray = np.array([0.0, 0.0, 0.0, 1.0])
    if offset.position is not None:
        position = read_row_or_rows(offset.position, 3, f"{pointer}/position")
    if offset.orientation_xyzw is not None:
        orientation = read_row_or_rows(offset.orientation_xyzw, 4, f"{pointer}/orientation_xyzw")
        check_unit_quaternions(orientation, f"{pointer}/orientation_xyzw")
        orientation = orientation / np.linalg.norm(orientation, axis=-1, keepdims=True)
    if position.ndim == orientation.ndim == 2:
        check_count(len(orientation), len(position), f"{pointer}/orientation_xyzw")
    rows = np.broadcast_shapes(position.shape[:-1], orientation.shape[:-1])
    return np.concatenate([np.broadcast_to(part, (*rows, part.shape[-1])) for part in (position, orientation)], axis=-1)


def check_count(given: int, expected: int, pointer: str) -> None:
    """Refuse a column whose number of rows is not the number of problems.

    Raises:
        FaultyFieldsError: The numbers differ.
    """
    if given != expected:
        here = f"This is {given}" if pointer == "/problem_count" else f"There are {given} rows here"
        detail = f"{here}, and there are {expected} problems in the columns before. They must agree."
        raise faulty_field(pointer, "wrong_shape", detail)
