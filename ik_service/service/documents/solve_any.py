"""Conversion of a choice among candidates, in any encoding, to checked arrays for the solver."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ik_service.robots import RobotModel, World
from ik_service.service.codecs.npz_codec import ArchiveFields
from ik_service.service.documents.columns import read_list, read_row
from ik_service.service.documents.envelope import check_left_out, read_envelope
from ik_service.service.documents.objective import row_counts
from ik_service.service.documents.solve_request import DecodedSolve, read_poses, read_solve, solve_document
from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.service.schema.solve_any import SolveAnyRequestBody
from ik_service.solver.candidates import Choice, check_choice, read_groups, read_via
from ik_service.solver.given.worlds import is_checked
from objectives.errors import InputError

_USUAL = {"best_of": None, "solutions": 1, "approximate": None, "sensitivity": None}  # others have no meaning here
_QUERY = ("criterion", "good_enough", "group_count")  # fields in the query of an archive


def read_solve_any(document: Any, robot: RobotModel, kept: Mapping[str, World]) -> DecodedSolve:
    """Return the request in a document, with its choice; errors as in `read_solve`."""
    if isinstance(document, ArchiveFields):
        document = solve_document(document, _QUERY)
    body = read_envelope(SolveAnyRequestBody, document)
    check_left_out(body.options, _USUAL, "the criterion chooses")
    if body.include:
        raise faulty_field("/include", "unknown_option", "Leave the field out: there are no further columns.")
    decoded = read_solve(body, robot, kept)
    for k, objective in enumerate(decoded.request.objectives):
        for pointer, rows in row_counts(objective, f"/objectives/{k}"):
            raise faulty_field(pointer, "wrong_shape", f"There are {rows} rows here. Give one row for all candidates.")
    return replace(decoded, request=replace(decoded.request, choice=_read_choice(body, robot, decoded.request)))


def _read_choice(body: SolveAnyRequestBody, robot: RobotModel, request: SolveRequest) -> Choice:
    count, group, second = request.problem_count, None, [] if body.via is None else body.via.targets
    cost = None if body.cost is None else read_row(body.cost, count, "/cost")
    if body.group is not None:
        group = read_list(body.group, int, "/group", "whole numbers, the group of each candidate")
    poses = [read_poses(target, f"/via/targets/{k}") for k, target in enumerate(second)]
    via, pointer = None, "/group"
    try:
        groups = read_groups(group, body.group_count, cost, count)
        if body.via is not None:
            pointer = "/via/targets"
            arrays = [[pose[column] for pose in poses] for column in (0, 1)]
            via = read_via(request.targets, (*arrays, body.via.max_change), count, wxyz=False)
        choice, pointer = Choice(groups, body.criterion, via, body.good_enough), "/criterion"
        if body.criterion != "clearance" or not is_checked(robot, request.options, request.world):
            check_choice(robot, request.batch, choice)  # worlds are read by the thread of the solver
    except InputError as error:
        raise faulty_field(pointer, "invalid_value", str(error)) from error
    return choice
