"""Answers to requests that need the host alone: no solver, no queue.

body -> read and checked -> memory of the answer and of the work reserved -> answer, made beside the event loop
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fastapi import Request
from starlette.responses import Response

from ik_service.robots import RobotModel, World
from ik_service.service.codecs.codec import Codec
from ik_service.service.codecs.media_types import codecs_of
from ik_service.service.gate.answers import PacedResponse, wait_for
from ik_service.service.gate.gate import CONTEXT, RequestContext
from ik_service.service.routes.state import ServiceState

Asked = TypeVar("Asked")


@dataclass(frozen=True)
class HostCalculation(Generic[Asked]):
    """A computation, with the memory and time that it takes."""

    subject: str  # name of the computation, for messages about media types
    # returns what a body asks for: (robot, document as a codec decodes it, worlds that it may name)
    read: Callable[[RobotModel, object, Mapping[str, World]], Asked]
    # most bytes of the answer: (robot, asked, whether columns are bytes rather than text)
    answer_bytes: Callable[[RobotModel, Asked, bool], int]
    working_bytes: Callable[[RobotModel, Asked], int]  # memory while it is computed: (robot, asked)
    # the answer in pieces: (name of the robot, robot, asked, codec of the answer)
    answer: Callable[[str, RobotModel, Asked, Codec], Sequence[bytes | memoryview]]

    async def respond(self, robot: str, request: Request, state: ServiceState) -> Response:
        """Answer a request about a robot."""
        model, kept = await state.robot(robot), (await state.world_refresh.current()).worlds
        codec, output_codec = codecs_of(request.headers, documents=self.subject)
        context: RequestContext = request.scope[CONTEXT]
        asked = await state.read(request, codec, lambda document: self.read(model, document, kept))
        context.reserve_answer(self.answer_bytes(model, asked, output_codec.is_binary))
        with context.reserved(self.working_bytes(model, asked)):
            making = state.side_threads.run(context.owner, self.answer, robot, model, asked, output_codec)
            pieces = await wait_for(request, making)
        return PacedResponse(pieces, media_type=output_codec.media_type)
