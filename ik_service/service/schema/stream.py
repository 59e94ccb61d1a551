"""The messages of a stream: one configuration, then ticks; each is answered. See docs/http_api.md."""

from enum import IntEnum
from typing import Any, Literal

from pydantic import Field

from ik_service.service.schema import limits
from ik_service.service.schema.fields import Envelope
from ik_service.service.schema.solve import SolveOptions, TargetForm

Encoding = Literal["json", "msgpack"]


class CloseCode(IntEnum):
    """Why the service closes a stream (RFC 6455, section 7.4)."""

    GOING_AWAY = 1001
    NOT_TEXT = 1007
    POLICY = 1008
    TOO_LARGE = 1009
    FAILED = 1011
    TRY_LATER = 1013


class StreamTarget(TargetForm):
    """A link that is to follow targets; data have one row for all ticks."""

    constrain: Literal["pose", "position", "orientation"] = Field(
        default="pose", description="What every tick gives for this link; the rest is free."
    )


class StreamConfiguration(Envelope):
    """The first message of a stream."""

    type: Literal["configure"]
    targets: list[StreamTarget] = Field(min_length=1, max_length=limits.MAX_TARGET_COUNT)
    options: SolveOptions = Field(default_factory=SolveOptions)
    initial_joint_q: Any = Field(default=None, description="Where the first tick starts; null: mid-range.")
    encoding: Encoding | None = Field(default=None, description="Of what the service sends; null: as this message.")
    tick_timeout_s: float = Field(
        default=1.0, gt=0, le=60, allow_inf_nan=False, description="When the answer to a tick is of no more use [s]."
    )


class Tick(Envelope):
    """One set of targets: a row per target, null where the target does not constrain it."""

    seq: int = Field(ge=0, le=limits.MAX_SEQUENCE)
    positions: Any = None
    orientations_xyzw: Any = None
    joint_q: Any = Field(default=None, description="Start here instead of at the last answer.")
