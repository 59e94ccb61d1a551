"""Worlds: `GET /v1/worlds`, and `GET`, `PUT` and `DELETE` of `/v1/worlds/{world}`.

A request names a world that is kept in place of sending its objects. Worlds are put and deleted where the operator
allows it, by API key only.
"""

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from ik_service.robots import DistanceGrid
from ik_service.robots.readers.world_file import world_document
from ik_service.service.catalog.entries import KeptWorld
from ik_service.service.catalog.world_catalog import KEPT_LIMITS, world_text
from ik_service.service.codecs.codec import Codec
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.codecs.media_types import answer_codec, codecs_of
from ik_service.service.documents.envelope import read_envelope
from ik_service.service.documents.surroundings import read_objects
from ik_service.service.errors.exceptions import BodyTooLargeError, NotAcceptableError
from ik_service.service.errors.problem_schema import problem_answers
from ik_service.service.gate.gate import CONTEXT
from ik_service.service.routes.openapi import document_body, document_content
from ik_service.service.routes.state import Condition, IfMatch, State
from ik_service.service.schema.collision import MAX_KEPT_BYTES, WORLD, WorldBody, WorldList, WorldSummary

WorldName = Annotated[
    str,
    Path(description="Name of the world: a-z, then a-z, 0-9, _ and -.", openapi_examples={"cell": {"value": "cell"}}),
]

router = APIRouter(prefix="/v1", tags=["worlds"])


@router.head("/worlds", include_in_schema=False)
@router.get("/worlds", summary="List the worlds")
async def list_worlds(state: State) -> WorldList:
    """Name every world that is kept, with its size."""
    catalog = await state.world_refresh.current()
    return WorldList(worlds=[_summary(name, kept) for name, kept in catalog.entries.items()])


@router.head("/worlds/{world}", include_in_schema=False)
@router.get(
    "/worlds/{world}",
    summary="Get a world",
    response_class=Response,
    responses={
        200: {"description": "Its objects.", "content": document_content(WorldBody)},
        **problem_answers(304, 404, 406, 412, 422),
    },
)
async def get_world(world: WorldName, request: Request, state: State, condition: Condition) -> Response:
    """Give the objects of a world, as JSON or, with `Accept: application/msgpack`, as MessagePack."""
    codec = answer_codec(request.headers, JsonCodec())
    if codec.is_flat:
        raise NotAcceptableError(f"A world is not answered as {codec.media_type}.")
    kept = (await state.world_refresh.current(world)).entry(world)
    if condition.is_known("world", world, kept):
        return Response(status_code=304, headers={"ETag": kept.etag})
    owner = request.scope[CONTEXT].owner
    content = await state.side_threads.run(owner, lambda: codec.encode(world_document(kept.world)))
    return Response(content, headers={"ETag": kept.etag}, media_type=codec.media_type)


@router.put(
    "/worlds/{world}",
    summary="Put a world",
    responses={
        200: {"model": WorldSummary, "description": "The world took the place of the one of that name."},
        201: {"model": WorldSummary, "description": "The world is new."},
        **problem_answers(400, 401, 403, 406, 408, 409, 412, 413, 415, 422, 429, 500, 507),
    },
    openapi_extra=document_body(WorldBody, "a table", WORLD),
)
async def put_world(world: WorldName, request: Request, state: State, condition: Condition) -> Response:
    """Keep a world from now on, and after a restart. Requests under way go on with the one they began with."""
    state.require_uploader(request.scope, state.world_catalog, world)
    codec, output_codec = codecs_of(request.headers, documents="A world")
    body, owner = await request.body(), request.scope[CONTEXT].owner
    with request.scope[CONTEXT].reserved(codec.decoded_bytes(body, state.max_body_bytes)):
        text = await state.side_threads.run(owner, _read, codec, body)
    expected = replace(condition, owner=owner)
    putting = state.catalog_thread.run(owner, state.world_catalog.put, world, text, expected)
    kept, is_new = await asyncio.shield(putting)  # also for a caller who has gone
    headers = {"ETag": kept.etag, "Location": f"/v1/worlds/{world}"}
    content = output_codec.encode(_summary(world, kept).model_dump())
    return Response(content, status_code=201 if is_new else 200, headers=headers, media_type=output_codec.media_type)


@router.delete(
    "/worlds/{world}",
    summary="Delete a world",
    status_code=204,
    responses={204: {"description": "It is gone."}, **problem_answers(401, 403, 404, 412, 422, 500)},
)
async def delete_world(world: WorldName, request: Request, state: State, if_match: IfMatch = None) -> None:
    """Stop keeping a world; requests under way go on."""
    await state.delete(request.scope, state.world_catalog, world, if_match)


def _read(codec: Codec, body: bytes) -> bytes:
    """Return a world in a body as it is kept."""
    given = read_envelope(WorldBody, codec.decode(body, "", len(body)))
    text = world_text(read_objects(given.objects, "/objects", KEPT_LIMITS))
    if len(text) > MAX_KEPT_BYTES:
        raise BodyTooLargeError(f"The world has {len(text)} bytes as MessagePack. Allowed: {MAX_KEPT_BYTES}.")
    return text


def _summary(name: str, kept: KeptWorld) -> WorldSummary:
    objects = kept.world.objects
    nodes = sum(one.values.size for one in objects.values() if isinstance(one, DistanceGrid))
    return WorldSummary(name=name, objects=len(objects), nodes=nodes)
