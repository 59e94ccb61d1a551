"""The OpenAPI document: that of FastAPI, and the models of bodies that FastAPI does not read."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ik_service.service.catalog.file_store import ENTRY_NAME
from ik_service.service.codecs.msgpack_codec import MsgpackCodec
from ik_service.service.codecs.npz_codec import NpzCodec
from ik_service.service.errors.problem_schema import ProblemBody
from ik_service.service.schema.close import CloseRequestBody
from ik_service.service.schema.collision import CheckRequestBody, WorldBody
from ik_service.service.schema.examples import EXAMPLE_ROBOTS, SOLVE_REQUESTS
from ik_service.service.schema.forward import ForwardRequestBody
from ik_service.service.schema.motion import ClipRequestBody, FollowRequestBody
from ik_service.service.schema.solve import SolveRequestBody
from ik_service.service.schema.solve_any import SolveAnyRequestBody

REF_TEMPLATE = "#/components/schemas/{model}"
"""Place of the schema of a model in the document."""
_BODIES: Sequence[type[BaseModel]] = (
    SolveRequestBody,
    SolveAnyRequestBody,
    ClipRequestBody,
    FollowRequestBody,
    ForwardRequestBody,
    CloseRequestBody,
    CheckRequestBody,
    WorldBody,
    ProblemBody,
)

_SECURITY_SCHEMES: dict[str, Any] = {
    "ApiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "Where the operator asks for one.",
    },
    "Bearer": {"type": "http", "scheme": "bearer", "description": "The same key."},
}
_PACKED_NOTE = (
    "The same document as MessagePack. A numeric column may be a map of `dtype` (float32 or float64), `shape` and "
    "`data` (bytes, little-endian, C order). In answers all are, with NaN for null, -1 for a `seed_index` that islands "
    "do not share, and `status` as codes into `status_names`."
)
_ARCHIVE_NOTE = (
    "Arrays as `numpy.savez` writes them, float32 or float64: `positions` [n, 3] or [n, links, 3], `orientations_xyzw` "
    "alike, `initial_joint_q`. The query of the address holds `link`, once or more, `include` and options by their "
    "names: `?link=panda_hand&seeds=16`. Answers hold their columns by name, as in MessagePack; what stands deeper has "
    "its path as name, such as `timing_ms.solve`. A choice also has the arrays `group`, of int32 or int64, and `cost`; "
    "a clip `held` [n, links], of bool, `clip_start`, like `group`, `plane`, `first_joint_q`; a path `start_joint_q`."
)
_MATCH_NOTE = "Solve only if the ETag of the robot is one of these; else 412."
_WAIT_NOTE = (
    "`wait=SECONDS` (RFC 7240, here with decimals too): how long the caller waits for an answer, up to the service's "
    "own limit. A request that cannot be answered by then is refused with 503 as soon as that is known, and is 504 "
    "once it is too late, or 503 `compiling` where its code is still being compiled; what cannot be read is passed "
    "over. Left out, the service's own limit holds."
)


def solve_request_body(
    model: type[BaseModel] = SolveRequestBody, requests: Mapping[str, Any] = SOLVE_REQUESTS
) -> dict[str, Any]:
    """Return the declaration of a solve request's body."""
    examples = {
        name: {"summary": f"{name.replace('_', ' ')} ({EXAMPLE_ROBOTS[name]})", "value": value}
        for name, value in requests.items()
    }
    json = {"schema": {"$ref": REF_TEMPLATE.format(model=model.__name__)}, "examples": examples}
    content = {"application/json": json, **binary_content(model)}
    return {"requestBody": {"required": True, "content": content}}


def document_content(model: type[BaseModel]) -> dict[str, Any]:
    """Return the declaration of a document in both codecs of documents."""
    schema = {"$ref": REF_TEMPLATE.format(model=model.__name__)}
    return {"application/json": {"schema": schema}, MsgpackCodec.media_type: {"schema": schema}}


def document_body(model: type[BaseModel], summary: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return the declaration of a body in both codecs, with an example; the summary has its robot in parentheses."""
    content = document_content(model)
    example = {"summary": summary, "value": value}
    content["application/json"]["examples"] = {summary.partition(" (")[0].replace(" ", "_"): example}
    return {"requestBody": {"required": True, "content": content}}


def solve_parameters() -> dict[str, Any]:
    """Return the declaration of the headers that say how long a caller waits, and for which version of a robot."""
    notes = {"Prefer": _WAIT_NOTE, "If-Match": _MATCH_NOTE}
    declared = {"in": "header", "required": False, "schema": {"type": "string"}}
    return {"parameters": [{"name": name, "description": note, **declared} for name, note in notes.items()]}


def binary_content(model: type[BaseModel]) -> dict[str, Any]:
    """Return the declaration of a document in the codecs other than JSON."""
    archive = {"type": "string", "format": "binary", "description": _ARCHIVE_NOTE}
    packed = {"$ref": REF_TEMPLATE.format(model=model.__name__), "description": _PACKED_NOTE}
    return {MsgpackCodec.media_type: {"schema": packed}, NpzCodec.media_type: {"schema": archive}}


def add_bodies(document: dict[str, Any]) -> None:
    """Add the models of bodies, the API keys, and the form of names in paths to the document of FastAPI."""
    _, ours = models_json_schema([(model, "validation") for model in _BODIES], ref_template=REF_TEMPLATE)
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(ours["$defs"])
    components["securitySchemes"] = _SECURITY_SCHEMES
    document["security"] = [{}, *({name: []} for name in _SECURITY_SCHEMES)]
    operations = [one for path in document["paths"].values() for one in path.values()]
    for parameter in (given for one in operations for given in one.get("parameters", ()) if given["in"] == "path"):
        parameter["schema"]["pattern"] = f"^{ENTRY_NAME.pattern}$"  # which routes check, not FastAPI
