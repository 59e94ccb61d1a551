"""From the document of a solve request, whatever it came as, to the checked arrays that go to the solver."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic import ValidationError

from ik_service.api import limits
from ik_service.api.archive_body import solve_document
from ik_service.api.codecs.json_codec import escape
from ik_service.api.codecs.npz_codec import ArchiveFields
from ik_service.api.columns import check_unit_quaternions, check_weights, read_row_or_rows, read_rows
from ik_service.api.problems import Fault, FaultyFieldsError
from ik_service.api.solve_schema import Include, Offset, SolveOptions, SolveRequestBody, SolveTarget
from ik_service.batching.request import FloatArray, SolveRequest, TargetColumns
from ik_service.robots import RobotModel
from ik_service.solver import SolverOptions
from ik_service.solver.solver import DEFAULT_SEEDS
from objectives.errors import InputError, UnknownNameError

FAULT_CODES = {
    "extra_forbidden": "unknown_field",
    "missing": "missing_field",
    "finite_number": "not_finite",
    "greater_than": "out_of_range",
    "greater_than_equal": "out_of_range",
    "less_than": "out_of_range",
    "less_than_equal": "out_of_range",
    "literal_error": "unknown_option",
    "too_short": "wrong_shape",
    "too_long": "wrong_shape",
    "string_too_short": "out_of_range",
    "string_too_long": "out_of_range",
}
"""Codes of the faults that the envelope's validation finds; types of values that do not fit are `wrong_type`."""


@dataclass(frozen=True)
class DecodedSolve:
    """A request and what its answer is to include."""

    request: SolveRequest
    include: frozenset[Include]


def read_solve(document: Any, robot: RobotModel) -> DecodedSolve:
    """Return the request in a document.

    Args:
        document: What a codec has decoded.
        robot: The robot asked for; its links and coordinates are what the document may name.

    Raises:
        FaultyFieldsError: A field that is not as the schema says, or a link that the robot does not have; pointers are
            those of the JSON document that says the same.
        TooManyProblemsError: More problems than allowed.
    """
    if isinstance(document, ArchiveFields):
        document = solve_document(document)
    try:
        envelope = SolveRequestBody.model_validate(document)
    except ValidationError as error:
        raise FaultyFieldsError(envelope_faults(error)) from error
    targets = tuple(_read_target(target, robot, f"/targets/{k}") for k, target in enumerate(envelope.targets))
    count = targets[0].problem_count
    for k, target in enumerate(targets):
        _check_count(target.problem_count, count, f"/targets/{k}")
    start = _read_start(envelope.initial_joint_q, robot, count)
    _check_attempts(envelope.options, count)
    return DecodedSolve(SolveRequest(targets, start, solver_options(envelope.options)), frozenset(envelope.include))


def envelope_faults(error: ValidationError) -> list[Fault]:
    """Return what validation found wrong with the envelope of a document."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        Fault("".join(f"/{escape(token)}" for token in entry["loc"]), _code(entry["type"]), f"{entry['msg']}.")
        for entry in found
    ]


def _code(kind: str) -> str:
    if kind.endswith("_type"):
        return "wrong_type"
    return FAULT_CODES.get(kind, "invalid_value")


def _read_target(target: SolveTarget, robot: RobotModel, pointer: str) -> TargetColumns:
    check_link(target.link, robot, f"{pointer}/link")
    if target.reference_link is not None:
        check_link(target.reference_link, robot, f"{pointer}/reference_link")
    positions = orientations = weights = None
    if target.positions is not None:
        positions = read_rows(target.positions, 3, f"{pointer}/positions")
    if target.orientations_xyzw is not None:
        orientations = read_rows(target.orientations_xyzw, 4, f"{pointer}/orientations_xyzw")
        check_unit_quaternions(orientations, f"{pointer}/orientations_xyzw")
    if target.row_weights is not None:
        weights = read_row_or_rows(target.row_weights, 6, f"{pointer}/row_weights")
        check_weights(weights, f"{pointer}/row_weights")
    offset = None if target.offset is None else _read_offset(target.offset, f"{pointer}/offset")
    columns = TargetColumns(target.link, positions, orientations, offset, target.reference_link, weights)
    _check_target_counts(columns, pointer)
    return columns


def check_link(name: str, robot: RobotModel, pointer: str) -> None:
    """Refuse a link that the robot does not have.

    Raises:
        FaultyFieldsError: There is no such link.
    """
    try:
        robot.link_frame(name)
    except UnknownNameError as error:
        raise FaultyFieldsError([Fault(pointer, "unknown_link", str(error))]) from error


def _read_offset(offset: Offset, pointer: str) -> FloatArray:
    position: FloatArray = np.zeros(3)
    orientation: FloatArray = np.array([0.0, 0.0, 0.0, 1.0])
    if offset.position is not None:
        position = read_row_or_rows(offset.position, 3, f"{pointer}/position")
    if offset.orientation_xyzw is not None:
        orientation = read_row_or_rows(offset.orientation_xyzw, 4, f"{pointer}/orientation_xyzw")
        check_unit_quaternions(orientation, f"{pointer}/orientation_xyzw")
        orientation = orientation / np.linalg.norm(orientation, axis=-1, keepdims=True)
    if position.ndim == orientation.ndim == 2:
        _check_count(len(orientation), len(position), f"{pointer}/orientation_xyzw")
    rows = np.broadcast_shapes(position.shape[:-1], orientation.shape[:-1])
    return np.concatenate([np.broadcast_to(part, (*rows, part.shape[-1])) for part in (position, orientation)], axis=-1)


def _check_target_counts(columns: TargetColumns, pointer: str) -> None:
    if not columns.problem_count:
        detail = "The target constrains nothing. Give positions, orientations_xyzw or both."
        raise FaultyFieldsError([Fault(pointer, "missing_field", detail)])
    for name in ("orientations_xyzw", "offset", "row_weights"):
        array = getattr(columns, name)
        if array is not None and array.ndim == 2:
            _check_count(len(array), columns.problem_count, f"{pointer}/{name}")


def _read_start(value: object, robot: RobotModel, count: int) -> FloatArray | None:
    if value is None:
        return None
    start = read_rows(value, robot.joint_coord_count, "/initial_joint_q")
    _check_count(len(start), count, "/initial_joint_q")
    return start


def _check_count(given: int, expected: int, pointer: str) -> None:
    if given != expected:
        detail = f"There are {given} rows here and {expected} problems in the columns before. They must agree."
        raise FaultyFieldsError([Fault(pointer, "wrong_shape", detail)])


def _check_attempts(options: SolveOptions, count: int) -> None:
    seeds = options.seeds if options.seeds is not None else DEFAULT_SEEDS
    if count * seeds > limits.MAX_ATTEMPT_COUNT:
        detail = (
            f"{count} problems with {seeds} seeds each are {count * seeds} attempts. "
            f"Allowed in one request: {limits.MAX_ATTEMPT_COUNT}."
        )
        raise FaultyFieldsError([Fault("/options/seeds", "out_of_range", detail)])
    if count * options.solutions > limits.MAX_SOLUTION_COUNT:
        detail = f"{count} problems may have {limits.MAX_SOLUTION_COUNT // count} solutions each in one request."
        raise FaultyFieldsError([Fault("/options/solutions", "out_of_range", detail)])


@lru_cache(maxsize=1024)
def solver_options(options: SolveOptions) -> SolverOptions:
    """Return the options as the solver has them.

    Raises:
        FaultyFieldsError: Options that do not go together.
    """
    fields = options.model_dump()
    position, orientation = fields.pop("position_tolerance_m"), fields.pop("orientation_tolerance_rad")
    try:
        return SolverOptions(position_tolerance=position, orientation_tolerance=orientation, **fields)
    except InputError as error:
        raise FaultyFieldsError([Fault("/options", "invalid_value", str(error))]) from error
