"""Conversion of a solve request, in any encoding, to checked arrays for the solver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from numpy.typing import NDArray

from ik_service.robots import RobotModel, World
from ik_service.service.codecs.npz_codec import TEXTS, ArchiveFields
from ik_service.service.documents.columns import (
    check_unit_quaternions,
    check_weights,
    read_matrices,
    read_row_or_rows,
    read_rows,
    wrong_count,
)
from ik_service.service.documents.envelope import check_link, read_envelope
from ik_service.service.documents.frames import read_disabled, read_offset, read_requested_limits
from ik_service.service.documents.objective import read_objective, row_counts
from ik_service.service.documents.surroundings import Surroundings, counted_objects, read_surroundings
from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.queue.objective_data import FloatArray
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.service.schema import limits
from ik_service.service.schema.solve import Include, SolveOptions, SolveRequestBody, SolveTarget, TargetPoses
from ik_service.service.schema.solve_any import SolveAnyRequestBody
from ik_service.solver.candidate_race import STAGES
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target, as_target
from ik_service.solver.given.worlds import is_checked
from objectives.errors import InputError

TargetPose = tuple[Target, FloatArray | None, FloatArray | None]
"""A target with its positions and orientations."""
_BY_LINK = {"positions": 3, "orientations_xyzw": 4}
NO_WORLDS: Mapping[str, World] = MappingProxyType({})


@dataclass(frozen=True)
class DecodedSolve:
    """Solve request, with the requested parts of the answer."""

    request: SolveRequest
    include: frozenset[Include | Literal["sensitivity"]]


def read_solve(document: Any, robot: RobotModel, kept: Mapping[str, World] = NO_WORLDS) -> DecodedSolve:
    """Return the request in a document.

    FaultyFieldsError if a field violates the schema, or the robot has no link of this name; pointers refer to the
    equivalent JSON document. TooManyProblemsError for more problems than allowed.
    """
    if isinstance(document, ArchiveFields):
        document = solve_document(document)
    envelope = read_envelope(SolveRequestBody, document)
    given, of_choice = envelope.model_fields_set, isinstance(envelope, SolveAnyRequestBody)
    if not envelope.targets and not envelope.objectives:
        code = "wrong_shape" if "targets" in given else "missing_field"
        raise faulty_field("/targets", code, "Give targets, objectives or both.")
    options = solver_options(envelope.options)
    poses = [_read_target(target, robot, options, f"/targets/{k}") for k, target in enumerate(envelope.targets)]
    start = None
    if envelope.initial_joint_q is not None:
        start = read_row_or_rows(envelope.initial_joint_q, robot.joint_coord_count, "/initial_joint_q")
        start = start[None] if start.ndim == 1 and not of_choice else start  # of a choice, one row for all
    objectives = tuple(
        read_objective(spec, robot, start, f"/objectives/{k}") for k, spec in enumerate(envelope.objectives)
    )
    columns = [next(column for column in pose[1:] if column is not None) for pose in poses]
    counts = [(f"/targets/{k}", len(column)) for k, column in enumerate(columns)]
    if envelope.problem_count is not None:
        counts.append(("/problem_count", envelope.problem_count))
    if start is not None and start.ndim == 2:
        counts.append(("/initial_joint_q", len(start)))
    counts += [one for k, objective in enumerate(objectives) for one in row_counts(objective, f"/objectives/{k}")]
    if not counts:
        detail = "No column has a row per problem. Say how many problems there are."
        raise faulty_field("/problem_count", "missing_field", detail)
    count = counts[0][1]
    for pointer, rows in counts:
        if rows != count:
            raise wrong_count(rows, count, pointer)
    enabled = read_disabled(envelope.constraints.disable, robot, count) if "constraints" in given else None
    around = Surroundings()
    if not given.isdisjoint(("world", "options")):  # the options may ask for a check
        around = read_surroundings(envelope.world, robot, options, count, kept)
    if "clearance" in envelope.include and not is_checked(robot, options, around.world):
        detail = "Nothing is checked for collision: the robot has no collision model, or options.collision is off."
        raise faulty_field("/include", "no_collision_check", detail)
    if "clearance" in envelope.include:
        options = replace(options, world_clearance=True)
    _check_attempts(options, count, around.world, robot.active_dof_count if of_choice else 0)
    traces = "trace" in envelope.include
    if traces:
        _check_traced(options, count)
    if options.sensitivity is not None:
        _check_derived(robot, count, [target for target, *_ in poses])
    is_limited = envelope.joint_limits is not None or envelope.frozen or envelope.max_change is not None
    within = read_requested_limits(envelope, robot, start, count) if is_limited else None
    targets, positions, orientations = zip(*poses, strict=True) if poses else ((), (), ())
    request = SolveRequest(
        targets,
        Batch(positions, orientations, count, start, enabled, limits=within),
        options,
        objectives,
        *around,
        engine=envelope.options.engine,
        islands=envelope.options.islands,
        traces=traces,
    )
    _ = request.batch_key  # looks at all rows: found here, large ones do not hold up the event loop
    derived: set[Literal["sensitivity"]] = set() if options.sensitivity is None else {"sensitivity"}
    return DecodedSolve(request, frozenset({*envelope.include, *derived}))


def _read_target(target: SolveTarget, robot: RobotModel, options: SolverOptions, pointer: str) -> TargetPose:
    if target.link not in robot.link_names:
        check_link(target.link, robot, f"{pointer}/link")
    if target.reference_link is not None:
        check_link(target.reference_link, robot, f"{pointer}/reference_link")
    weights = tolerance = None
    positions, orientations = read_poses(target, pointer)
    if target.row_weights is not None:
        weights = read_row_or_rows(target.row_weights, 6, f"{pointer}/row_weights")
        check_weights(weights, f"{pointer}/row_weights")
    if target.tolerance is not None:
        tolerance = read_row_or_rows(target.tolerance, 6, f"{pointer}/tolerance")
    offset = None if target.offset is None else read_offset(target.offset, f"{pointer}/offset")
    rows = orientations if positions is None else positions
    if rows is None:
        detail = "The target constrains nothing. Give positions, orientations_xyzw or both, or matrices."
        raise faulty_field(pointer, "missing_field", detail)
    data = {"orientations_xyzw": orientations, "offset": offset, "row_weights": weights, "tolerance": tolerance}
    for name, array in data.items():
        if array is not None and array.ndim == 2 and len(array) != len(rows):
            raise wrong_count(len(array), len(rows), f"{pointer}/{name}")
    read = Target(target.link, offset, target.reference_link, weights, target.free, tolerance, target.frame)
    if target.frame == "target" and orientations is None:
        raise faulty_field(f"{pointer}/frame", "invalid_value", "Axes of the target need its orientations_xyzw.")
    if not target.free and tolerance is None:
        return read, positions, orientations
    try:
        read = as_target(read, robot)
        read.deadband(options.position_tolerance, options.orientation_tolerance)
    except InputError as error:
        field = "free" if tolerance is None else "tolerance"
        raise faulty_field(f"{pointer}/{field}", "invalid_value", str(error)) from error
    return read, positions, orientations


def read_poses(target: TargetPoses, pointer: str) -> tuple[FloatArray | None, FloatArray | None]:
    """Return positions and orientations of a target, None where free."""
    positions = orientations = None
    if target.matrices is not None:
        if target.positions is not None or target.orientations_xyzw is not None:
            detail = "Matrices are whole poses: leave out positions and orientations_xyzw."
            raise faulty_field(f"{pointer}/matrices", "invalid_value", detail)
        return read_matrices(target.matrices, f"{pointer}/matrices")
    if target.positions is not None:
        positions = read_rows(target.positions, 3, f"{pointer}/positions")
    if target.orientations_xyzw is not None:
        orientations = read_rows(target.orientations_xyzw, 4, f"{pointer}/orientations_xyzw")
        check_unit_quaternions(orientations, f"{pointer}/orientations_xyzw")
    return positions, orientations


def _check_attempts(options: SolverOptions, count: int, world: World | None, dofs_at_once: int) -> None:
    """Refuse too many attempts; `dofs_at_once` are the active DOFs of a choice, which is solved in one batch."""
    seeds = STAGES[-1][0] if dofs_at_once and options.seeds is None else options.seed_count
    most = limits.MAX_ATTEMPT_COUNT // max(1, dofs_at_once**2 * options.max_iterations // limits.CHOICE_EFFORT)
    if world is not None:
        most //= 1 + counted_objects(world) // limits.OBJECTS_OF_AN_ATTEMPT
    if count * seeds > most:
        around = f" in a world of {len(world.objects)} objects" if world and most < limits.MAX_ATTEMPT_COUNT else ""
        detail = (
            f"{count} problems with {seeds} seeds each are {count * seeds} attempts{around}. "
            f"Allowed in one request: {most}."
        )
        raise faulty_field("/options/seeds", "out_of_range", detail)
    if count * options.solution_count > limits.MAX_SOLUTION_COUNT:
        detail = f"{count} problems may have {limits.MAX_SOLUTION_COUNT // count} solutions each in one request."
        raise faulty_field("/options/solutions", "out_of_range", detail)


def _check_traced(options: SolverOptions, count: int) -> None:
    if count != 1:
        raise faulty_field("/include", "invalid_value", f"A trace is of one problem; the request has {count}.")
    if (effort := options.search_seeds * options.max_iterations**2) > limits.TRACE_EFFORT:
        detail = f"Seeds times max_iterations squared are {effort}. Allowed for a trace: {limits.TRACE_EFFORT}."
        raise faulty_field("/include", "out_of_range", detail)


def _check_derived(robot: RobotModel, count: int, targets: Sequence[Target]) -> None:
    if not targets:
        raise faulty_field("/options/sensitivity", "invalid_value", "There are no targets that answers could follow.")
    if any(target.frame is not None for target in targets):
        detail = "Answers to targets with a frame, free axes or tolerances have no derivatives."
        raise faulty_field("/options/sensitivity", "invalid_value", detail)
    most = limits.MAX_SENSITIVE_EFFORT // max(1, robot.active_dof_count) ** 2
    if count > most:
        detail = (
            f"{count} problems with derivatives of a robot with {robot.active_dof_count} active DOFs. Allowed in one "
            f"request: {most}."
        )
        raise faulty_field("/options/sensitivity", "out_of_range", detail)


@lru_cache(maxsize=1024)
def solver_options(options: SolveOptions) -> SolverOptions:
    """Return the options for the solver; FaultyFieldsError if options exclude each other."""
    fields = options.model_dump(exclude={"engine", "islands"})
    renamed = {"position_tolerance_m": "position_tolerance", "orientation_tolerance_rad": "orientation_tolerance"}
    renamed["margin_m"] = "margin"
    try:
        return SolverOptions(**{renamed.get(name, name): value for name, value in fields.items()})
    except InputError as error:
        raise faulty_field("/options", "invalid_value", str(error)) from error


def solve_document(fields: ArchiveFields, further: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON document equivalent to an archive and its query, with `further` fields of the query.

    The arrays are `positions` [m] and `orientations_xyzw`, of shape [n, 3 or 4] for one link and [n, links, 3 or 4] for
    several, and `initial_joint_q`, of shape [n, joint_coord_count]; `link`, `include` and `disable` may repeat; options
    have their names. FaultyFieldsError for an array of another name or shape, or an option given twice.
    """
    links = [value for name, value in fields.query if name == "link"]
    document: dict[str, Any] = {"targets": [{"link": link} for link in links], "options": {}}
    if include := [value for name, value in fields.query if name == "include"]:
        document["include"] = include
    if disabled := [value for name, value in fields.query if name == "disable"]:
        document["constraints"] = {"disable": disabled}
    for name, array in fields.arrays.items():
        if name in _BY_LINK:
            columns = _by_link(name, array, len(links))
            for target, column in zip(document["targets"], columns, strict=True):
                target[name] = column
        else:
            document[name] = array
    for name, value in fields.query:
        if name in further:
            document[name] = value
            continue
        if name in document["options"]:
            raise faulty_field(f"/options/{name}", "invalid_value", "The option is given twice.")
        if name not in TEXTS:
            document["options"][name] = value
    return document


def _by_link(name: str, array: NDArray[Any], count: int) -> list[NDArray[Any]]:
    if count <= 1 and array.ndim == 2:
        return [array] * count
    if array.ndim != 3 or array.shape[1] != count:
        shape = f"[n, {count}, {_BY_LINK[name]}]" if count > 1 else f"[n, {_BY_LINK[name]}]"
        detail = f"The array has shape {list(array.shape)}. Give {shape}: the query names {count} links."
        raise faulty_field(f"/{name}", "wrong_shape", detail)
    return [array[:, k] for k in range(count)]
