"""The documents of a choice among candidates as JSON schema: a solve's request with groups, and an answer per group."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from ik_service.result_schema import CHOICE_COLUMNS
from ik_service.service.schema import limits
from ik_service.service.schema.examples import SOLVE_ANY_REQUESTS
from ik_service.service.schema.fields import Envelope, Whole, nullable, row
from ik_service.service.schema.solve import NOT_EMPTY, SolveRequestBody, TargetPoses, Timing, column_fields
from ik_service.solver.candidates import FATES, GROUPS_MAX, Criterion

_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": GROUPS_MAX - 1}, "minItems": 1}
Finite = Annotated[float, Field(ge=-limits.MAX_VALUE, le=limits.MAX_VALUE, allow_inf_nan=False)]


class SecondPoses(Envelope):
    """A second pose of each candidate, which has to be reached from the answer."""

    targets: list[TargetPoses] = Field(description="In the order of `targets` of the request.")
    max_change: Annotated[Finite, Field(gt=0)] = Field(description="Largest change of a joint on the way [rad or m].")


class SolveAnyRequestBody(SolveRequestBody):
    """Candidates for one robot, one per problem of a solve's request; the best of each group is wanted.

    The options `best_of`, `solutions`, `approximate` and `sensitivity`, and `include`, are left out. `initial_joint_q`
    may be one row for all.
    """

    model_config = ConfigDict(json_schema_extra={"examples": list(SOLVE_ANY_REQUESTS.values()), **NOT_EMPTY})

    group: Annotated[Any, nullable(_IDS)] = Field(default=None, description="Group of each; null: a single group.")
    group_count: Annotated[Whole, Field(ge=1, le=GROUPS_MAX)] | None = Field(
        default=None, description="Number of groups, some may be empty; null: the largest of `group` and one."
    )
    criterion: Criterion = Field(
        default="first",
        description="Value of an answer, lower is better; of equal ones the lowest index wins. `first`: 0; `nearest`: "
        "largest change of a joint from `initial_joint_q`; others: minus the quantity of this name.",
    )
    cost: Annotated[Any, nullable(row(None))] = Field(default=None, description="Added to the values; null: 0.")
    via: SecondPoses | None = None
    good_enough: Finite | None = Field(default=None, description="Value at which a group is done; null: the best.")


_Counts = create_model("CandidateCounts", **dict.fromkeys(FATES, (list[int], ...)))  # type: ignore[call-overload]  # fields by name
SolveAnyAnswerBody: type[BaseModel] = create_model(
    "SolveAnyAnswerBody",
    __doc__="The best candidate of each group, as columns in the order of the groups; null where none succeeds.",
    robot=(str, ...),
    joint_names=(list[str], ...),
    coordinate_names=(list[str], Field(description="Names of the columns of `joint_q`.")),
    **column_fields(CHOICE_COLUMNS, included=False),
    **column_fields(CHOICE_COLUMNS, included=True),
    counts=(_Counts, Field(description="Candidates of each group by how they ended.")),
    timing_ms=(Timing, ...),
)
