"""The documents of motions as JSON schema: fitted clips, followed paths, and their answers."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from ik_service.motion_columns import CLIP_COLUMNS, PATH_COLUMNS
from ik_service.service.schema import limits
from ik_service.service.schema.collision import SolveWorld
from ik_service.service.schema.examples import CLIP_REQUESTS, FOLLOW_REQUESTS
from ik_service.service.schema.fields import Envelope, Name, Whole, nullable, row
from ik_service.service.schema.solve import SolveOptions, SolveTarget, Timing, column_fields
from ik_service.solver.given.options import SOLUTIONS_MAX

_RATE = {"type": "number", "exclusiveMinimum": 0, "maximum": limits.MAX_VALUE}
_RATES = nullable(_RATE, {"type": "object", "additionalProperties": _RATE})
_STARTS = nullable({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1})
_HELD = WithJsonSchema({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "boolean"}}})
_OF_JOINTS = "one number for all joints, or by names; null: those of the robot."
_NAMES = ("joint_names", "coordinate_names", "dof_names", "links")
Finite = Annotated[float, Field(ge=0, le=limits.MAX_VALUE, allow_inf_nan=False)]


class MotionRequestBody(Envelope):
    """A motion: rows of columns are frames or waypoints, two at least."""

    targets: list[SolveTarget] = Field(min_length=1, max_length=limits.MAX_TARGET_COUNT)
    dt: Annotated[Finite, Field(gt=0)] = Field(description="Time from row to row [s].")
    velocity: Annotated[Any, _RATES] = Field(default=None, description=f"Largest speeds [rad/s or m/s], {_OF_JOINTS}")
    acceleration: Annotated[Any, _RATES] = Field(default=None, description=f"Of speeds [per s], {_OF_JOINTS}")
    world: SolveWorld | None = Field(default=None, description="Objects around the robot, all enabled; null for none.")
    options: SolveOptions = Field(default_factory=SolveOptions)


class ClipRequestBody(MotionRequestBody):
    """A recorded motion to be fitted: targets need not be met. Attached objects are left out.

    The options `seeds`, `deadline_s`, `best_of`, `solutions` and `sensitivity` are left out.
    """

    model_config = ConfigDict(json_schema_extra={"examples": list(CLIP_REQUESTS.values())})

    held: Annotated[dict[Name, Any], _HELD] = Field(default={}, description="By link: frames of standing still.")
    plane: Annotated[Any, nullable(row(4))] = Field(default=None, description="Of held links: normal, distance [m].")
    smoothness: Finite = Field(default=1.0, description="Draw of joints to the mean of their neighbours.")
    clip_start: Annotated[Any, _STARTS] = Field(default=None, description="First frames of clips; null: one clip.")
    first_joint_q: Annotated[Any, nullable(row(None))] = Field(default=None, description="One `dt` before each clip.")


class FollowRequestBody(MotionRequestBody):
    """A path to be followed. The options `best_of`, `solutions` and `sensitivity` are left out."""

    model_config = ConfigDict(json_schema_extra={"examples": list(FOLLOW_REQUESTS.values())})

    start_joint_q: Annotated[Any, nullable(row(None))] = Field(default=None, description="One `dt` before the path.")
    solutions: Annotated[Whole, Field(ge=1, le=SOLUTIONS_MAX)] = Field(default=16, description="Tracks to begin with.")


def _answer(name: str, text: str, columns: Any, *names: str) -> type[BaseModel]:
    fields: dict[str, Any] = dict.fromkeys((*_NAMES, *names), (list[str], ...))
    fields |= column_fields(columns, included=False) | column_fields(columns, included=True)
    return create_model(name, __doc__=text, robot=(str, ...), **fields, timing_ms=(Timing, ...))


ClipAnswerBody = _answer("ClipAnswerBody", "A row per frame.", CLIP_COLUMNS, "held_links")
PathAnswerBody = _answer("PathAnswerBody", "A row per waypoint, met or not.", PATH_COLUMNS)
