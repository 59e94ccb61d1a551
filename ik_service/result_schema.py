"""The columns of a result: one table from which device arrays, `IKResult`, bodies, files and the C header derive.

A new column needs a row of `RESULT_COLUMNS`, a field in `ResultColumns` and in `EdgeColumns`, and its computation.
Edges are HTTP, the client, bulk results and files of the command line. There a column of errors per target holds the
worst error, and names end in the unit.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.result_column import Column

RESULT_COLUMNS = (
    Column(
        name="joint_q",
        dtype="precision",
        axes=("coordinates",),
        unit="rad or m",
        meaning="configurations, within the limits [m, rad], COORDINATES each",
        description="Configurations [rad or m], inside the joint limits.",
    ),
    Column(
        name="success",
        dtype="bool",
        meaning="1 where every target is within the tolerances",
        description="Whether every target is met within its tolerance; without targets, whether the cost is at a "
        "minimum.",
    ),
    Column(name="status", dtype="status", meaning="how it ended: one of the codes above"),
    Column(
        name="position_error",
        dtype="float64",
        axes=("targets",),
        unit="m",
        meaning="[m], TARGETS each, recomputed in double from joint_q",
        description="Worst over the targets [m]; null where all are free.",
        null="nan",
    ),
    Column(
        name="orientation_error",
        dtype="float64",
        axes=("targets",),
        unit="rad",
        meaning="[rad], TARGETS each",
        description="Worst over the targets [rad]; null where all are free.",
        null="nan",
    ),
    Column(
        name="cost",
        dtype="float32",
        meaning="1/2 |r|^2 of the weighted residual",
        description="1/2 |r|^2 of the weighted residuals.",
        null="nan",
    ),
    Column(name="iterations", dtype="int32", meaning="steps of the best attempt"),
    Column(
        name="seed_index",
        dtype="int32",
        meaning="start configuration that led to the answer; -1 for a branch in closed form, and where islands chose "
        "different ones",
        description="Start configuration that won: 0 is the given one, if any; null for a branch in closed form, and "
        "where islands chose different ones.",
        null="-1",
    ),
    Column(
        name="proof",
        dtype="int32",
        meaning="0 for none, 1 shell, 2 intervals, 3 search, 4 tool contact",
        description="Proof that a target is out of reach or blocked: 0 for none, 1 by distance from shoulder or first "
        "joint, 2 by intervals of joints, 3 with a search over the last joint, 4 by contact of what is rigid to the "
        "link.",
        include="advice",
    ),
    Column(
        name="active_limits",
        dtype="bool",
        axes=("dofs",),
        meaning="1 where a DOF is at a limit, DOFS each",
        description="DOFs that sit at a limit, if asked for.",
        include="active_limits",
    ),
    Column(
        name="limit_margin",
        dtype="float64",
        unit="rad or m",
        meaning="least distance of a coordinate from its nearer limit [rad or m]; NAN where the robot has no limits",
        description="Least distance of a coordinate from its nearer limit [rad or m]; null where the robot has no "
        "limits.",
        null="nan",
    ),
    Column(
        name="constraint_error",
        dtype="float64",
        axes=("constraints",),
        unit="rad or m",
        description="With `constraints`: largest row of each constraint of the robot [m or rad], of those that are "
        "disabled too.",
        include="constraints",
    ),
    Column(
        name="closing_joint_q",
        dtype="float64",
        axes=("closing_coordinates",),
        unit="rad or m",
        description="With `constraints`: coordinates of the joints that close loops [rad or m].",
        include="constraints",
    ),
    Column(
        name="clearance",
        dtype="float64",
        unit="m",
        meaning="least distance of links from each other and from objects [m], negative in contact; INFINITY for none",
        description="With `clearance`: least distance of links from each other and from objects [m], negative in "
        "contact; null where nothing can touch.",
        include="clearance",
        null="inf",
    ),
    Column(
        name="world_clearance",
        dtype="float64",
        unit="m",
        description="With `clearance`: least distance of links and attached objects from objects of the world [m], "
        "pairs of links left aside; null without objects.",
        include="clearance",
        null="inf",
    ),
    Column(
        name="closest",
        dtype="int32",
        axes=("pair",),
        description="With `clearance`: the two that are closest, by their places in `collision_names`; -1, -1 where "
        "nothing can touch.",
        include="clearance",
    ),
    Column(
        name="joint_q_by_targets",
        dtype="float64",
        axes=("coordinates", "poses", "twist"),
        description="With `options.sensitivity`: change of each coordinate with the position [m] and the rotation "
        "vector [rad] of each target, about the axes of the frame that it is given in.",
        include="sensitivity",
    ),
    Column(
        name="is_differentiable",
        dtype="bool",
        description="With `options.sensitivity`: whether the answer has derivatives; zeros stand where it has none.",
        include="sensitivity",
    ),
    Column(
        name="solutions",
        dtype="precision",
        axes=("solutions", "coordinates"),
        unit="rad or m",
        description="Distinct configurations that succeed, per problem, if asked for: the answer first, then rows of "
        "null up to the number asked for.",
        include="solutions",
        null="nan",
    ),
    Column(
        name="solution_count",
        dtype="int32",
        description="With `solutions`: how many were found.",
        include="solutions",
    ),
    Column(
        name="branch",
        dtype="int32",
        axes=("solutions",),
        description="With `solutions`: branch of each, 4 shoulder + 2 elbow + wrist with bits of 0 or 1; null for arms "
        "without branches in closed form, and for solutions from other starts.",
        include="solutions",
        null="-1",
    ),
    Column(
        name="complete",
        dtype="bool",
        description="With `solutions`: whether it is proven that there are no others, angles taken modulo a turn.",
        include="solutions",
    ),
)
"""The columns of a result, in the order of `IKResult` and of the C struct."""
DEVICE_COLUMNS = tuple(column for column in RESULT_COLUMNS if column.include in ("", "advice", "active_limits"))
"""Columns written by kernels; the host assembles the others."""
OF_COORDINATES = tuple(column.name for column in DEVICE_COLUMNS if "coordinates" in column.axes)
OF_DOFS = tuple(column.name for column in DEVICE_COLUMNS if "dofs" in column.axes)

ISLAND_COLUMNS = (
    Column(name="nisland", dtype="int32"),
    Column(name="tree_island", dtype="int32", axes=("trees",)),
    Column(name="row_island", dtype="int32", axes=("rows",)),
    Column(name="success", dtype="bool", axes=("trees",)),
    Column(name="status", dtype="int32", axes=("trees",)),
    Column(name="seed_index", dtype="int32", axes=("trees",)),
    Column(name="iterations", dtype="int32", axes=("trees",)),
    Column(name="cost", dtype="float32", axes=("trees",)),
)
"""The columns of the islands of every problem; after the first three kernels write them, by names with `island_`."""
DEVICE_ISLAND_COLUMNS = ISLAND_COLUMNS[3:]

_Q = Column(name="joint_q", dtype="precision", axes=("coordinates",), description="Its configuration [rad or m].")
CHOICE_COLUMNS = (
    Column(name="candidate", dtype="int32", description="The best of the group; null where none succeeds.", null="-1"),
    replace(_Q, null="nan"),
    Column(name="value", dtype="float64", description="By the criterion, with its cost; lower is better.", null="nan"),
    Column(name="status", dtype="status"),
    replace(_Q, name="via_joint_q", description="With `via`: the same at the second pose.", null="nan", include="via"),
)
"""The columns of a choice among candidates, with a row for every group."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ResultColumns:
    """The columns of a result in Python.

    Attributes:
        joint_q: Configurations [m or rad, quaternions xyzw], [n, coordinates]; float32, or float64 if requested.
        success: Whether every target is met within its tolerance, judged in float64 on `joint_q`, bool [n]. With
            objectives alone: whether the answer is a minimum by the tests of `docs/conventions.md`.
        status: IKStatus codes, int8 [n].
        position_error: [m], float64 [n, targets]; NaN where the target leaves the position free.
        orientation_error: [rad], float64 [n, targets]; NaN where the target leaves the orientation free.
        cost: 1/2 |r|^2 of the winning attempts, summed over islands, float32 [n].
        iterations: Iterations of the winning attempt, the maximum over islands, int32 [n].
        seed_index: Seed of the winning attempt, int32 [n]; -1: a branch in closed form, or different ones in islands.
        proof: Proof that a target is out of reach or blocked, int32 [n]: 0 for none, 1 shell, 2 intervals, 3 search, 4
            tool contact; the largest number of the islands.
        active_limits: DOFs at a limit, bool [n, DOFs].
        limit_margin: Least distance of a moving coordinate from its nearer limit [rad or m], in float64 on `joint_q`,
            float64 [n]; negative outside of limits that are not hard, NaN without limits.
        solutions: If requested: distinct successful configurations, the answer first, [n, solutions, coordinates]; NaN
            after the last one.
        solution_count: Number of solutions, int32 [n].
        branch: Branch of each solution, 4 shoulder + 2 elbow + wrist with bits of 0 or 1, int32 [n, solutions]; -1 for
            arms without branches in closed form, and for solutions from other starts.
        complete: Whether it is proven that the exact targets have no other solution, modulo turns, bool [n].
        constraint_error: Largest row of each constraint of the robot [m or rad], in float64 on `joint_q`, also of
            disabled constraints, float64 [n, constraints].
        closing_joint_q: Coordinates of the joints that close loops [rad or m], float64 [n, closing coordinates].
        clearance: Where collision was checked: least distance of links from each other and from objects [m], in float64
            on `joint_q`, float64 [n]; negative in contact, inf where no contact is possible.
        world_clearance: With the option `world_clearance`: the same of links and attached objects from objects alone,
            float64 [n]; inf without objects.
        closest: Indices of the closest pair: links with spheres, then the objects of the problem's world, int32 [n, 2];
            -1 where no contact is possible.
        joint_q_by_targets: With `sensitivity`: derivative of each coordinate by the position and the rotation vector of
            each target, about the axes of the target's reference frame, float64 [n, coordinates, targets, 6]; zero
            without a derivative.
        is_differentiable: With `sensitivity`: whether an answer has derivatives, bool [n].
    """

    joint_q: NDArray[np.floating]
    success: NDArray[np.bool_]
    status: NDArray[np.int8]
    position_error: NDArray[np.float64]
    orientation_error: NDArray[np.float64]
    cost: NDArray[np.float32]
    iterations: NDArray[np.int32]
    seed_index: NDArray[np.int32]
    proof: NDArray[np.int32]
    active_limits: NDArray[np.bool_]
    limit_margin: NDArray[np.float64]
    constraint_error: NDArray[np.float64]
    closing_joint_q: NDArray[np.float64]
    clearance: NDArray[np.float64] | None = None
    world_clearance: NDArray[np.float64] | None = None
    closest: NDArray[np.int32] | None = None
    joint_q_by_targets: NDArray[np.float64] | None = None
    is_differentiable: NDArray[np.bool_] | None = None
    solutions: NDArray[np.floating] | None = None
    solution_count: NDArray[np.int32] | None = None
    branch: NDArray[np.int32] | None = None
    complete: NDArray[np.bool_] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class EdgeColumns:
    """The columns of a result in the client, with their names at edges.

    Attributes:
        joint_q: Configurations [rad or m], shape [n, joint_coord_count].
        success: Whether every target is met within its tolerance, shape [n].
        status: Status of each problem, such as "converged", shape [n].
        position_error_m: Worst over the targets [m], shape [n]; NaN where all leave the position free.
        orientation_error_rad: Worst over the targets [rad], shape [n]; NaN where all leave the orientation free.
        iterations: Iterations of the winning start, shape [n].
        seed_index: The winning start, shape [n]; -1: a branch in closed form, or islands chose different ones.
        cost: 1/2 |r|^2 of the weighted residuals, shape [n].
        limit_margin: Least distance of a coordinate from its nearer limit [rad or m], shape [n]; NaN where the robot
            has no limits; None from a service without this column.
        solutions: Distinct solutions, shape [n, solutions, joint_coord_count], if requested; NaN after the last one.
        solution_count: Number of solutions, shape [n], if requested.
        active_limits: DOFs at a limit, shape [n, joint_dof_count], if requested.
        constraint_error: Largest row of each constraint of the robot [m or rad], shape [n, constraints], if requested.
        closing_joint_q: Coordinates of the joints that close loops [rad or m], shape [n, closing coordinates], if
            requested.
        clearance_m: Least distance of links from each other and from objects [m], shape [n], if requested; negative in
            contact, inf where no contact is possible.
        closest: The closest pair, as indices into `collision_names`, shape [n, 2], if requested; -1 for no contact.
        joint_q_by_targets: Derivative of each coordinate by the position [m] and the rotation vector [rad] of each
            target, about the axes of the target's reference frame, shape [n, coordinates, targets, 6], if requested.
        is_differentiable: Whether an answer has derivatives, shape [n], if requested; derivatives are zero otherwise.
        branch: Branch of each solution, 4 shoulder + 2 elbow + wrist, shape [n, solutions], if requested; -1 for none.
        complete: Whether it is proven that no other solution exists, shape [n], if requested.
        proof: As in `ResultColumns`, shape [n], if requested.
        world_clearance_m: Least distance of links and attached objects from objects of the world [m], shape [n], if
            requested; inf without objects.
    """

    joint_q: NDArray[np.floating[Any]]
    success: NDArray[np.bool_]
    status: NDArray[np.str_]
    position_error_m: NDArray[np.float64]
    orientation_error_rad: NDArray[np.float64]
    iterations: NDArray[np.integer[Any]]
    seed_index: NDArray[np.integer[Any]]
    cost: NDArray[np.floating[Any]]
    limit_margin: NDArray[np.float64] | None = None
    solutions: NDArray[np.floating[Any]] | None = None
    solution_count: NDArray[np.integer[Any]] | None = None
    active_limits: NDArray[np.bool_] | None = None
    constraint_error: NDArray[np.float64] | None = None
    closing_joint_q: NDArray[np.float64] | None = None
    clearance_m: NDArray[np.float64] | None = None
    closest: NDArray[np.integer[Any]] | None = None
    joint_q_by_targets: NDArray[np.float64] | None = None
    is_differentiable: NDArray[np.bool_] | None = None
    branch: NDArray[np.integer[Any]] | None = None
    complete: NDArray[np.bool_] | None = None
    proof: NDArray[np.integer[Any]] | None = None
    world_clearance_m: NDArray[np.float64] | None = None


EDGE_COLUMNS = tuple(sorted(RESULT_COLUMNS, key=lambda column: [*EdgeColumns.__annotations__].index(column.edge_name)))
ALWAYS_COLUMNS = tuple(column for column in EDGE_COLUMNS if not column.include)
INCLUDED_COLUMNS = tuple(column for column in EDGE_COLUMNS if column.include)
"""The first are in every answer and file, the others where a request includes them; in the order of edges."""


def edge_array(column: Column, result: Any) -> NDArray[Any]:
    """Return a column of a result as an array for edges: the worst over all targets, statuses as uint8."""
    values: NDArray[Any] = getattr(result, column.name)
    if column.is_per_target:
        return values[:, 0] if values.shape[1] == 1 else worst_over_targets(values)
    return values.astype(np.uint8) if column.dtype == "status" else values


def edge_arrays(result: ResultColumns) -> dict[str, NDArray[Any]]:
    """Return the columns of every file, by their names at edges, in order."""
    return {column.edge_name: edge_array(column, result) for column in ALWAYS_COLUMNS}


def worst_over_targets(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest error of every problem, shape [n], of errors [n, targets]; NaN where none is constrained."""
    if errors.shape[1] == 0:
        return np.full(len(errors), np.nan)
    worst = np.where(np.isnan(errors), -np.inf, errors).max(axis=1)
    return np.where(np.isneginf(worst), np.nan, worst)
