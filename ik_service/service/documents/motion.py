"""Conversion of motions, in any encoding, to checked arguments of the solver: clips to fit, paths to follow."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ik_service.motion.clip_problem import read_clips
from ik_service.motion.held_links import read_held, read_plane
from ik_service.motion.result import RateLimits
from ik_service.robots import RobotModel, World
from ik_service.service.codecs.npz_codec import ArchiveFields
from ik_service.service.documents.columns import read_list, read_row
from ik_service.service.documents.envelope import check_left_out, read_envelope
from ik_service.service.documents.frames import read_numbers
from ik_service.service.documents.solve_request import DecodedSolve, read_solve, solve_document
from ik_service.service.errors.exceptions import faulty_field, pointer_token
from ik_service.service.queue.solve_request import MotionCall
from ik_service.service.schema.motion import ClipRequestBody, FollowRequestBody, MotionRequestBody
from ik_service.service.schema.solve import SolveRequestBody
from ik_service.solver.given.targets import DATA
from objectives.errors import InputError, UnknownNameError

Body = TypeVar("Body", bound=MotionRequestBody)
_RATES = ("velocity", "acceleration")
_QUERY = ("dt", "smoothness", "solutions", *_RATES)  # fields in the query of an archive
_USUAL: dict[str, object] = {"best_of": None, "solutions": 1, "sensitivity": None}  # others have no effect


def read_clip(document: Any, robot: RobotModel, kept: Mapping[str, World]) -> DecodedSolve:
    """Return the request to fit a clip in a document; errors as in `read_solve`."""
    body = _read_body(ClipRequestBody, document, _USUAL | {"seeds": None, "deadline_s": None})
    decoded, arguments = _read_motion("fit_clip", body, robot, kept, ("first_joint_q", body.first_joint_q))
    batch, starts, links = decoded.request.batch, body.clip_start, [target.link for target in body.targets]
    if decoded.request.attached:
        raise faulty_field("/world/attached", "invalid_value", "Leave the field out: clips know objects alone.")
    if body.plane is not None:
        arguments["plane"] = read_row(body.plane, 4, "/plane")
        _check("/plane", read_plane, arguments["plane"])
    if starts is not None:
        starts = read_list(starts, int, "/clip_start", "whole numbers, the first frame of each clip")
        _check("/clip_start", read_clips, starts, batch.problem_count)
    held = {}
    for link, given in body.held.items():
        pointer = f"/held/{pointer_token(link)}"
        held[link] = read_list(given, bool, pointer, "booleans, one for each frame")
        (k,) = _check(pointer, read_held, {link: held[link]}, links, batch.problem_count, unknown="unknown_link")
        if batch.positions[k] is None or batch.orientations_xyzw[k] is None:
            raise faulty_field(pointer, "invalid_value", "A held link needs positions and orientations_xyzw.")
    arguments |= {"held": held, "clip_start": starts, "smoothness": body.smoothness}
    return decoded


def read_follow(document: Any, robot: RobotModel, kept: Mapping[str, World]) -> DecodedSolve:
    """Return the request to follow a path in a document; errors as in `read_solve`."""
    body = _read_body(FollowRequestBody, document, _USUAL)
    decoded, arguments = _read_motion("follow", body, robot, kept, ("start_joint_q", body.start_joint_q))
    for k, target in enumerate(decoded.request.targets):
        for name in DATA:
            if np.ndim(getattr(target, name)) > 1:
                raise faulty_field(f"/targets/{k}/{name}", "wrong_shape", "Give one row for all waypoints.")
    arguments["solutions"] = body.solutions
    return decoded


def _read_body(kind: type[Body], document: Any, usual: Mapping[str, object]) -> Body:
    if isinstance(document, ArchiveFields):
        document = solve_document(document, _QUERY)
        if "held" in document:
            links, columns = [target["link"] for target in document["targets"]], np.atleast_2d(document["held"].T)
            if len(columns) != len(links):
                raise faulty_field("/held", "wrong_shape", f"The array has not the shape [n, {len(links)}].")
            document["held"] = {link: mask for link, mask in zip(links, columns, strict=True) if mask.any()}
    body = read_envelope(kind, document)
    check_left_out(body.options, usual, "it has no effect on motions")
    return body


def _read_motion(
    call: Any, body: MotionRequestBody, robot: RobotModel, kept: Mapping[str, World], start: tuple[str, Any]
) -> tuple[DecodedSolve, dict[str, Any]]:
    """Return a request of targets, surroundings and options, and the arguments of its motion, to be completed."""
    solve = SolveRequestBody.model_construct(targets=body.targets, world=body.world, options=body.options)
    request, arguments = read_solve(solve, robot, kept).request, dict[str, Any](dt=body.dt)
    if request.problem_count == 1:
        column = "orientations_xyzw" if body.targets[0].positions is None else "positions"
        raise faulty_field(f"/targets/0/{column}", "wrong_shape", "A motion has two rows or more. There is one.")
    if request.object_enabled is not None:
        raise faulty_field("/world/disable", "invalid_value", "Leave the field out: motions know whole worlds.")
    for name in _RATES:
        arguments[name] = read_numbers(getattr(body, name), f"/{name}")
        rates = dict.fromkeys(_RATES) | {name: arguments[name]}
        _check(f"/{name}", RateLimits.read, robot, body.dt, *rates.values(), unknown="unknown_joint")
    name, given = start
    if given is not None:
        arguments[name] = read_row(given, robot.joint_coord_count, f"/{name}")
        _check(f"/{name}", robot.clamp_joint_q, arguments[name])  # refuses quaternions of length zero
    return DecodedSolve(replace(request, motion=MotionCall(call, arguments)), frozenset()), arguments


def _check(pointer: str, check: Callable[..., Any], *given: Any, unknown: str = "invalid_value") -> Any:
    """Return what the library reads of a field; FaultyFieldsError, with code `unknown` for unknown names."""
    try:
        return check(*given)
    except (InputError, UnknownNameError) as error:
        code = unknown if isinstance(error, UnknownNameError) else "invalid_value"
        raise faulty_field(pointer, code, str(error)) from None
