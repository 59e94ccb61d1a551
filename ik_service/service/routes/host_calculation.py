"""How a request is answered that needs the host alone: no solver, no queue.

body -> read and checked -> memory of the answer and of the work reserved -> answer, made beside the event loop
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

from fastapi import Request
from starlette.responses import Response

from ik_service.robots import RobotModel, World
from ik_service.service.codecs.codec import Codec
from ik_service.service.codecs.media_types import document_codecs
from ik_service.service.gate.access import owner_of
from ik_service.service.gate.body_limits import read_body
from ik_service.service.gate.client_disconnect import wait_for
from ik_service.service.gate.paced_response import PacedResponse
from ik_service.service.gate.request_memory import UNCOUNTED_BYTES, reservation_of
from ik_service.service.routes.body_reading import read_asked
from ik_service.service.routes.state import ServiceState

Asked = TypeVar("Asked")


@dataclass(frozen=True)
class HostCalculation(Generic[Asked]):
    """What is computed, and what it takes.

    Attributes:
        subject: What it is, for messages about media types.
        read: Returns what a body asks for: (robot, document as a codec decodes it, worlds that it may name).
        answer_bytes: Most bytes of the answer: (robot, asked, whether columns are bytes rather than text).
        working_bytes: Memory while it is computed: (robot, asked).
        answer: The answer in pieces: (name of the robot, robot, asked, codec of the answer).
    """

    subject: str
    read: Callable[[RobotModel, object, Mapping[str, World]], Asked]
    answer_bytes: Callable[[RobotModel, Asked, bool], int]
    working_bytes: Callable[[RobotModel, Asked], int]
    answer: Callable[[str, RobotModel, Asked, Codec], Sequence[bytes | memoryview]]

    async def respond(self, robot: str, request: Request, state: ServiceState) -> Response:
        """Answer a request about a robot."""
        model, kept = await state.robot(robot), await state.worlds()
        codec, output_codec = document_codecs(request.headers, self.subject)
        body = await read_body(request, state.max_body_bytes)
        owner, reservation = owner_of(request.scope), reservation_of(request.scope)
        asked = await read_asked(request, state, codec, body, lambda document: self.read(model, document, kept))
        reservation.reserve_answer(self.answer_bytes(model, asked, output_codec.is_binary))
        working = self.working_bytes(model, asked)
        with reservation.reserved(working) if working > UNCOUNTED_BYTES else nullcontext():
            making = state.side_threads.run(owner, self.answer, robot, model, asked, output_codec)
            pieces = await wait_for(request, making)
        return PacedResponse(pieces, media_type=output_codec.media_type)
