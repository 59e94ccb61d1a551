"""The documents of forward kinematics as JSON schema."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ik_service.service.schema.fields import Envelope, Name, column, row

MAX_POSE_COUNT = 1_000_000
"""Configurations times links of one request."""
FORWARD_REQUEST: dict[str, Any] = {"joint_q": [[0, -0.785, 0, -2.356, 0, 1.571, 0.785]], "links": ["panda_hand"]}

Names = Annotated[list[Name], Field(min_length=1, max_length=4096, json_schema_extra={"uniqueItems": True})]


class ForwardRequestBody(Envelope):
    """Configurations of one robot, and the links that are asked for."""

    model_config = ConfigDict(json_schema_extra={"examples": [FORWARD_REQUEST]})

    joint_q: Annotated[Any, WithJsonSchema(column(row(None, least_width=0)))] = Field(
        description="One row of coordinates per configuration [rad or m], in the order of `coordinate_names`; of none "
        "for a robot that does not move."
    )
    links: Names | None = Field(default=None, description="Names of links, each once; null for all of the robot.")


class LinkPoses(BaseModel):
    """The poses of one link in the world frame, as a target of a solve takes them."""

    link: str
    positions: list[list[float]] = Field(description="One row x, y, z per configuration [m].")
    orientations_xyzw: list[list[float]] = Field(description="One unit quaternion x, y, z, w per configuration.")


class ForwardAnswerBody(BaseModel):
    """Poses of links, in the order asked for."""

    robot: str
    poses: list[LinkPoses]
