"""The documents of a solve as JSON schema: the request's envelope, checked by these models, and the answer, described.

The schema only grows.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    create_model,
)

from ik_service.result_column import Column
from ik_service.result_schema import EDGE_COLUMNS
from ik_service.service.schema import limits
from ik_service.service.schema.collision import SolveWorld
from ik_service.service.schema.examples import SOLVE_ANSWER, SOLVE_REQUESTS, TWO_ARMS_ANSWER
from ik_service.service.schema.fields import (
    NAME_LISTS,
    Envelope,
    Name,
    Offset,
    Whole,
    column,
    nullable,
    refused,
    row,
    row_or_rows,
)
from ik_service.service.schema.objective import Objective
from ik_service.solver.given.options import CANDIDATES_MAX, SOLUTIONS_MAX, SolverOptions
from ik_service.solver.lm.status import STATUS_WORDS

Include = Literal[
    "active_limits", "advice", "clearance", "constraints", "islands", "manipulability", "solutions", "trace"
]
_NULL: dict[str, Any] = {"type": "null"}
_POSE: dict[str, Any] = {"positions": _NULL, "orientations_xyzw": _NULL}
_MATRIX = {"type": "array", "items": row(4), "minItems": 4, "maxItems": 4}
Status = Annotated[str, Field(json_schema_extra={"enum": list(STATUS_WORDS)})]


_DEFAULTS = SolverOptions()
_DISTANCE = {"type": "number", "minimum": 0, "maximum": limits.MAX_VALUE}
MAX_CHANGE = nullable(_DISTANCE, {"type": "object", "additionalProperties": _DISTANCE})
JOINT_LIMITS = WithJsonSchema({"type": "object", "additionalProperties": {"anyOf": [*row_or_rows(2)]}})


class TargetForm(Envelope):
    """A target without its poses."""

    link: Name = Field(description="Name of the link, see `GET /v1/robots/{robot}`.")
    offset: Offset | None = Field(default=None, description="Tool frame on the link; null is the link frame itself.")
    reference_link: Name | None = Field(
        default=None, description="Link in whose frame the target is given; null is the world."
    )
    row_weights: Annotated[Any, nullable(*row_or_rows(6, 0.0))] = Field(
        default=None,
        description="Weights of x, y, z and of the rotation about x, y, z, one row or one per problem. "
        "0 leaves an axis free, in the solve and in the judgement. null: all 1.",
    )
    free: list[Literal["x", "y", "z", "rx", "ry", "rz"]] = Field(
        default=[],
        max_length=6,
        description="Axes of `frame` along which and about which the link may be anywhere.",
    )
    tolerance: Annotated[Any, nullable(*row_or_rows(6, 0.0))] = Field(
        default=None,
        description="How far the link may be off along x, y, z [m] and about x, y, z [rad], one row or one per "
        "problem; 0 is as near as the options say. Beside one free rotation the other two are the same: a cone about "
        "the free axis. Errors count from the tolerance less that of the options, so that `success` means within it.",
    )
    frame: Literal["reference", "target", "tool", "world"] | None = Field(
        default=None,
        description="Frame of the axes. null: the tool's with `free` or `tolerance`, else that of `reference_link`.",
    )


class TargetPoses(Envelope):
    """Poses of a target, one per problem."""

    model_config = ConfigDict(
        json_schema_extra={
            **refused({**_POSE, "matrices": _NULL}),
            "anyOf": [{"properties": {"matrices": _NULL}}, {"properties": _POSE}],
        }
    )

    positions: Annotated[Any, nullable(column(row(3)))] = Field(
        default=None, description="One row x, y, z per problem [m]. null: the position is free."
    )
    orientations_xyzw: Annotated[Any, nullable(column(row(4)))] = Field(
        default=None, description="One unit quaternion x, y, z, w per problem. null: the orientation is free."
    )
    matrices: Annotated[Any, nullable(column(_MATRIX))] = Field(
        default=None,
        description="One homogeneous 4 x 4 matrix per problem, list of rows, in place of positions and orientations.",
    )


class SolveTarget(TargetPoses, TargetForm):
    """A link that is to reach a pose, in every problem. All targets of a request hold equally many problems."""


def _all_or_number(value: object, number: ValidatorFunctionWrapHandler) -> object:
    """Return "all", or a checked number."""
    return value if value == "all" else number(value)


_NUMBER = {"type": "integer", "minimum": 1, "maximum": SOLUTIONS_MAX}
SolutionCount = Annotated[
    Whole,
    Field(ge=1, le=SOLUTIONS_MAX),
    WrapValidator(_all_or_number),
    PlainSerializer(lambda count: count, return_type=int | str),
    WithJsonSchema({"anyOf": [_NUMBER, {"const": "all"}]}),
]


class SolveOptions(Envelope):
    """Budgets and tolerances of a solve."""

    seeds: Annotated[Whole, Field(ge=1, le=limits.REQUEST_SEEDS_MAX)] | None = Field(
        default=None,
        description="Start configurations tried per problem until one succeeds. null: 1024, fewer once the least cost "
        "has come up often enough; with solutions 256, with best_of or in the staged engine 64.",
    )
    max_iterations: Whole = Field(
        default=_DEFAULTS.max_iterations,
        ge=1,
        le=limits.REQUEST_ITERATIONS_MAX,
        description="Iterations from one start.",
    )
    position_tolerance_m: float = Field(
        default=_DEFAULTS.position_tolerance,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Largest position error of a success [m].",
    )
    orientation_tolerance_rad: float = Field(
        default=_DEFAULTS.orientation_tolerance,
        gt=0,
        le=3.2,
        allow_inf_nan=False,
        description="Largest orientation error of a success [rad].",
    )
    deadline_s: float | None = Field(
        default=None,
        gt=0,
        le=60,
        allow_inf_nan=False,
        description="Time of the solver after which no start is tried any more [s], on a GPU one more wave of starts "
        "at most; what is not solved by then has the status `deadline`, and answers depend on the time. null: no other "
        "deadline than the request's.",
    )
    random_seed: Whole = Field(
        default=_DEFAULTS.random_seed,
        ge=0,
        le=limits.MAX_RANDOM_SEED,
        description="Equal requests with equal seeds get equal answers.",
    )
    sampler: Literal["roberts", "uniform", "gauss", "none"] = Field(
        default=_DEFAULTS.sampler,
        description="How starts are drawn. `roberts`: evenly through the joints' ranges. `uniform`: independently. "
        "`gauss`: about `initial_joint_q`. `none`: `initial_joint_q`, or the middle of the ranges, is the only start.",
    )
    noise_std: float = Field(
        default=_DEFAULTS.noise_std,
        gt=0,
        le=100,
        allow_inf_nan=False,
        description="Standard deviation of the sampler `gauss` [rad or m].",
    )
    best_of: Literal["cost", "nearest", "clearance"] | None = Field(
        default=None,
        description="null: the first start that succeeds answers. Else all starts are tried and the answer is the "
        "success of least cost, the one nearest to the first start, or the one furthest from contact.",
    )
    approximate: Literal["nearest"] | None = Field(
        default=None,
        description="Which configuration a problem gets that none solves. null: the one of least cost. `nearest`: the "
        "minimum to which its first start leads.",
    )
    want: Literal["answer", "success"] = Field(
        default=_DEFAULTS.want,
        description="`success`: only whether a target is within reach, and the configuration if so. A target that is "
        "proven out of reach before the first attempt gets its start back, and no cost.",
    )
    solutions: SolutionCount = Field(
        default=1,
        description="Distinct solutions looked for per problem; `all` is for up to 16. Arms with a closed form "
        "give their branches, or with seven joints samples; otherwise many starts are tried. See `include`.",
    )
    solution_difference: float = Field(
        default=_DEFAULTS.solution_difference,
        gt=0,
        le=100,
        allow_inf_nan=False,
        description="Two solutions are distinct where a joint differs by more than this [rad or m].",
    )
    precision: Literal["float32", "float64"] = Field(
        default=_DEFAULTS.precision, description="float64 finishes in double precision, to about 1e-9 m."
    )
    collision: Literal["self", "world", "off"] | None = Field(
        default=None,
        description="`self` keeps links off each other, `world` off the objects of the world too, `off` checks "
        "nothing. null: `world` where one is given, else `self` where the robot has a collision model.",
    )
    margin_m: float = Field(
        default=_DEFAULTS.margin, ge=0, le=1, allow_inf_nan=False, description="Least clearance of a success [m]."
    )
    repair: bool = Field(
        default=_DEFAULTS.repair,
        description="Whether answers in contact are moved out of it, as far as limits and tolerances allow; takes some "
        "milliseconds where there are any.",
    )
    sensitivity: Literal["target"] | None = Field(
        default=None,
        description="`target` adds to the answer how coordinates change with targets, `joint_q_by_targets`, and "
        f"`is_differentiable`. Problems times the square of the robot's active DOFs: at most "
        f"{limits.MAX_SENSITIVE_EFFORT}.",
    )
    engine: Literal["auto", "compiled", "staged"] = Field(
        default="auto",
        description="`compiled` solves by code generated for the robot, `staged` by separate steps, far slower; "
        "`auto` takes the first where it can. `resolved` in the answer says which it was.",
    )
    islands: bool = Field(
        default=True, description="Whether joints that nothing couples are solved independently; false: as one system."
    )
    candidates: Whole = Field(
        default=_DEFAULTS.candidates,
        ge=1,
        le=CANDIDATES_MAX,
        description="Trial steps evaluated side by side in every iteration of the staged engine.",
    )


class SolveConstraints(Envelope):
    """Constraints of the robot, such as loops that it closes; all are enabled that are not named here."""

    disable: Annotated[Any, NAME_LISTS] = Field(
        default_factory=list,
        description="Names of constraints that are not to be met: one list, or one per problem. They are not judged "
        "and change nothing; `constraint_error` has their error.",
    )


NOT_EMPTY = refused({key: {"maxItems": 0} for key in ("targets", "objectives")})


class SolveRequestBody(Envelope):
    """Problems for one robot, as columns: row k of every column belongs to problem k."""

    model_config = ConfigDict(json_schema_extra={"examples": list(SOLVE_REQUESTS.values()), **NOT_EMPTY})

    targets: list[SolveTarget] = Field(
        default_factory=list,
        max_length=limits.MAX_TARGET_COUNT,
        description="What is to be reached, and judged. May be left out where there are objectives.",
    )
    objectives: list[Objective] = Field(
        default_factory=list,
        max_length=limits.MAX_OBJECTIVE_COUNT,
        description="What else counts. Objectives yield to targets unless their priority is 0; among rows of one "
        "priority weights decide. With targets, success is theirs alone; without, a problem succeeds where the "
        "weighted sum of squares has a minimum.",
    )
    problem_count: Annotated[Whole, Field(ge=1, le=limits.MAX_PROBLEM_COUNT)] | None = Field(
        default=None,
        description="Number of problems, where no column has a row per problem.",
    )
    initial_joint_q: Annotated[Any, nullable(*row_or_rows(None))] = Field(
        default=None,
        description="First start configuration of each problem [rad or m], one row of coordinates per problem (of one "
        "problem also the row alone), in the order of `coordinate_names`; clamped into the limits. Locked joints are "
        "held where it says. null: the middle of the ranges, and locked joints where they are locked.",
    )
    joint_limits: Annotated[dict[Name, Any], JOINT_LIMITS] | None = Field(
        default=None,
        max_length=limits.MAX_ACTIVE_DOFS,
        description="Limits within the robot's, by names of joints or of their DOFs: lower and upper [rad or m], one "
        "pair or one per problem. null: those of the robot.",
    )
    frozen: Annotated[Any, NAME_LISTS] = Field(
        default_factory=list,
        description="Names of joints or of their DOFs that stay where `initial_joint_q` has them, within the robot's "
        "limits: one list, or one per problem.",
    )
    max_change: Annotated[Any, MAX_CHANGE] = Field(
        default=None,
        description="How far joints may be from `initial_joint_q` [rad or m]: one number for all, or by names. null: "
        "as far as their limits.",
    )
    constraints: SolveConstraints = Field(default_factory=SolveConstraints)
    world: SolveWorld | None = Field(default=None, description="Objects that links keep off; null for none.")
    options: SolveOptions = Field(default_factory=SolveOptions)
    include: list[Include] = Field(
        default_factory=list,
        max_length=8,
        description="Further columns wanted in the answer; `trace` where the request has one problem.",
    )


class TargetErrors(BaseModel):
    """Errors of one target, where a request has several."""

    link: str
    position_error_m: list[float | None] = Field(description="Distance to the target [m]; null where it is free.")
    orientation_error_rad: list[float | None] = Field(description="Angle to the target [rad]; null where it is free.")


class IslandBody(BaseModel):
    """Joints that targets couple, solved apart from all others: with their own start configuration and status."""

    joints: list[str] = Field(description="Joints that it moves.")
    rows: list[str] = Field(description='What couples them: "target LINK", or an objective by its type and link.')
    success: bool = Field(description="Whether its targets are met.")
    status: Status
    seed_index: int = Field(description="Start configuration that won.")
    iterations: int
    cost: float | None = Field(description="1/2 |r|^2 of its rows.")


class Resolved(BaseModel):
    """Engine, seeds and device of the answer."""

    engine: str
    seeds: int = Field(description="Start configurations that each problem could use.")
    device: str
    collision: Literal["self", "world", "off"] = Field(description="What was checked for collision; `off`: nothing.")


class Timing(BaseModel):
    """Where the time went [ms]."""

    queue: float
    solve: float
    total: float


def _optional(kind: Any, description: str) -> tuple[Any, Any]:
    """The field of what an answer has where a request asks for it."""
    return kind | None, Field(default=None, description=description)


def column_fields(columns: Sequence[Column], *, included: bool) -> dict[str, Any]:
    """Return the fields of the columns that every answer has, or of columns that a request has to include."""
    types = {"status": Status, "bool": bool, "int32": int, "precision": float, "float32": float, "float64": float}
    fields: dict[str, Any] = {}
    for one in columns:
        kind: Any = types[one.dtype] | None if one.null else types[one.dtype]
        for _ in range(1 if one.is_per_target else 1 + len(one.axes)):
            kind = list[kind]
        if bool(one.include) == included:
            default, kind = (None, kind | None) if included else (..., kind)
            fields[one.edge_name] = (kind, Field(default, description=one.description or None))
    return fields


SolveAnswerBody: type[BaseModel] = create_model(
    "SolveAnswerBody",
    __config__=ConfigDict(json_schema_extra={"examples": [SOLVE_ANSWER, TWO_ARMS_ANSWER]}),
    __doc__="Results as columns, in the order of the problems. "
    "A problem without success carries its best configuration.",
    robot=(str, ...),
    joint_names=(list[str], ...),
    coordinate_names=(list[str], Field(description="Names of the columns of `joint_q`.")),
    **column_fields(EDGE_COLUMNS, included=False),
    targets=_optional(list[TargetErrors], "Per target; only where there are several."),
    **column_fields(EDGE_COLUMNS, included=True),
    dof_names=_optional(list[str], "With `active_limits`: names of its columns."),
    constraint_names=_optional(list[str], "With `constraints`: names of the columns of `constraint_error`."),
    closing_coordinate_names=_optional(list[str], "With `constraints`: names of the columns of `closing_joint_q`."),
    collision_names=_optional(
        list[str], "With `clearance`: links that have spheres, attached objects, objects of the world."
    ),
    manipulability=_optional(
        list[float | None],
        "With `manipulability`: least sqrt(det(J J^T)) of the targets' frames in the world, with velocities over the "
        "length of the chain, and rows of position, orientation or both, as the target; null where nothing moves.",
    ),
    islands=_optional(
        list[list[IslandBody]],
        "The islands of each problem, if asked for; none where nothing moves a target's link.",
    ),
    advice=_optional(list[str], "What to do about each problem, if asked for. For people; branch on `status`."),
    trace=_optional(list[dict[str, Any]], "Attempts at the one problem by iterations: fields of `SolveTrace`."),
    resolved=(Resolved, ...),
    timing_ms=(Timing, ...),
)
