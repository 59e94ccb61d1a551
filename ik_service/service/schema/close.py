"""The documents of closing loops as JSON schema."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ik_service.service.schema.fields import Envelope, Name, Whole, column, row
from ik_service.service.schema.limits import MAX_RANDOM_SEED
from ik_service.service.schema.solve import SolveConstraints

MAX_MODES = 16
"""Assembly modes of one configuration."""
MAX_EFFORT, EFFORT_OF_ONE = 1_000_000, 2000
"""Most of configurations x solutions x (rows x rows x DOFs + 2000) of one request: some 2 s of a core at worst."""
CLOSE_REQUEST: dict[str, Any] = {"joint_q": [[0.4, 0, 1.2]], "frozen": ["crank_joint"], "solutions": 2}


class CloseRequestBody(Envelope):
    """Configurations of one robot near to which its loops are to be closed."""

    model_config = ConfigDict(json_schema_extra={"examples": [CLOSE_REQUEST]})

    joint_q: Annotated[Any, WithJsonSchema(column(row(None, least_width=0)))] = Field(
        description="Where to start: one row of coordinates per configuration [rad or m], in the order of "
        "`coordinate_names`."
    )
    frozen: list[Name] = Field(
        default_factory=list, max_length=4096, description="Names of joints or DOFs that stay where they are."
    )
    constraints: SolveConstraints = Field(default_factory=SolveConstraints)
    solutions: Annotated[Whole, Field(ge=1, le=MAX_MODES)] = Field(
        default=1,
        description="Ways to assemble the mechanism that are wanted, with what drives it where the answer has it.",
    )
    random_seed: Annotated[Whole, Field(ge=0, le=MAX_RANDOM_SEED)] = Field(
        default=0, description="Seed of the random starts that are tried where the given one does not close."
    )


class CloseAnswerBody(BaseModel):
    """Closed configurations, or those that came nearest; row k of every column belongs to configuration k."""

    robot: str
    coordinate_names: list[str]
    constraint_names: list[str] = Field(description="Names of the columns of `constraint_error`.")
    closing_coordinate_names: list[str] = Field(description="Names of the columns of `closing_joint_q`.")
    joint_q: list[list[float]] = Field(description="Configurations within the joint limits [rad or m].")
    success: list[bool] = Field(description="Whether all enabled constraints are met within 1e-10 m and rad.")
    status: list[str] = Field(description="closed, open, or blocked_by_limits: joints at their limits are in the way.")
    iterations: list[int] = Field(description="Steps of the attempt that is returned.")
    constraint_error: list[list[float]] = Field(description="Largest row of each constraint [m or rad].")
    closing_joint_q: list[list[float]] = Field(description="Coordinates of the joints that close loops [rad or m].")
    solutions: list[list[list[float | None]]] | None = Field(
        default=None,
        description="Where several are asked for: ways to assemble the mechanism, nearest first, then rows of null.",
    )
    solution_count: list[int] | None = Field(default=None, description="How many there are, where several are asked.")
