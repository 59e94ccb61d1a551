"""From rows and DOFs to the program of an island.

DOFs of the island (variables) -> forward kinematics -> frames and twists
statements of the objectives -> rows and derivatives by twist, in terms of frames and twists
Jacobian columns -> J'J (lower triangle), J'r, |r|^2, and errors of the pose targets
"""

from collections.abc import Callable, Sequence

from ik_service.compiler.applied_rows import (
    AppliedGroup,
    IslandScope,
    applied_groups,
    bind,
    jacobian_row,
    place_of,
    transplant,
)
from ik_service.compiler.chain import build_chain, fixed_name
from ik_service.compiler.island_program import (
    FIXED,
    GOAL,
    NO_OBJECTIVE,
    TURN,
    TURN_WIDTH,
    DataInput,
    IslandProgram,
    IslandSignature,
    TargetError,
    multiplier,
    own_multiplier,
    total,
)
from ik_service.compiler.row_loops import split_loops
from ik_service.mechanism.kinematic_robot import KinematicRobot
from objectives.expression import Expression, ExpressionGraph, Scalar, maximum
from objectives.expression.rows import ROW_TOLERANCES, state_rows

# Factor on tolerances of constraints while float32 attempts compete; the winner is refined and judged in float64.
ATTEMPT_SLACK = 10.0
# Factor that makes a number vanish beside |r|^2, but keeps infinity and NaN.
TRACE = 1e-200


def build_program(signature: IslandSignature) -> IslandProgram:
    """Build the program of an island."""
    robot, dofs, starts = signature.robot, signature.dofs, signature.starts
    objectives, targets, goal_count = signature.objectives, signature.targets, signature.goal_count
    graph = ExpressionGraph()
    wanted = [{row - start for row in signature.rows} for start in starts]
    applied = [one for k, own in enumerate(objectives) for one in applied_groups(own, k, wanted[k])]
    chain = build_chain(robot, _bodies(robot, applied), graph, dofs, signature.half_angle_error)
    moved = [one for one in applied if one.group.starts]
    start = build_chain(robot, _bodies(robot, moved), graph, None, signature.half_angle_error)
    scope = IslandScope(robot, graph, dofs, signature.levels, chain, start, {})
    applied, loops = split_loops(applied, signature, scope)
    stated: list[Expression] = []
    columns: list[list[Expression]] = []
    errors, zero = [], graph.constant(0.0)
    shares: list[Expression] = []
    levels = signature.levels
    constraints = {k for level in levels if level.is_closing and goal_count == 0 for k in level.objectives}
    with_multiplier = constraints if targets and len(levels) == 2 else set()
    shifted, one_sided = dict[int, Expression](), dict[int, Expression]()
    for one in applied:
        bound = [bind(one, element, objectives[one.objective], scope) for element in one.elements]
        weighted = [values for values, _ in bound]
        place = len(stated)
        stated += _rows(one, weighted, graph)
        if one.group.shifts and one.objective in with_multiplier:
            unweighted = _shifted(one, [plain for _, plain in bound], own_multiplier, place, graph)
            one_sided |= dict(enumerate(_rows(one, unweighted, graph), place))
            weighted = _shifted(one, weighted, multiplier, place, graph)
            shifted |= dict(enumerate(_rows(one, weighted, graph), place))
        columns += [jacobian_row(one, r, weighted, scope) for r in one.wanted]
        if one.objective in targets:
            first = starts[one.objective] + one.first_row
            further = [row - first for row in signature.judged if 0 <= row - first < one.group.row_count]
            errors.append(_target_error(one, bound[0][1], graph, further))
        if one.objective in signature.tolerated:
            slack = ATTEMPT_SLACK if one.objective in constraints else 1.0
            shares += _shares_of_tolerances(one, [plain for _, plain in bound], scope, slack)
    row_objective = tuple(one.objective for one in applied for _ in one.wanted)
    goals = [DataInput(f"goal{r}", NO_OBJECTIVE, GOAL, r) for r, k in enumerate(row_objective) if k < goal_count]
    multiplied = tuple(r for r, k in enumerate(row_objective) if k in with_multiplier)
    left = list(stated)
    for goal in goals:
        left[goal.column] = left[goal.column] - graph.variable(goal.name)
    for r in multiplied:
        left[r] = shifted[r] if r in shifted else left[r] + graph.variable(multiplier(r))
    pairs = list(zip(left, columns, strict=True))
    norms = [graph.variable(loop.norm2) for loop in loops]
    plain = [stated[r] if r in multiplied else row for r, row in enumerate(left)]
    squares = [(k, row * row) for k, row in zip(row_objective, plain, strict=True)]
    squares += [(loop.objective, norm) for loop, norm in zip(loops, norms, strict=True)]
    shares += [graph.variable(loop.error2) for loop in loops if loop.shares2]

    def looped(names: Sequence[str | None]) -> Expression:
        return total((graph.variable(name) for name in names if name is not None), zero)

    met = {*targets, *constraints}  # objectives that an attempt has to meet
    n, quaternions = range(len(dofs)), _quaternions(robot, dofs)
    turns = _turns(quaternions) if signature.limit_turns else []
    looped_inputs = [one for loop in loops for one in loop.inputs]
    return IslandProgram(
        graph=graph,
        dofs=dofs,
        quaternions=quaternions,
        halves={**scope.chain.halves, **scope.start.halves},
        inputs=(*scope.inputs.values(), *_fixed_coordinates(robot, graph), *turns, *goals, *looped_inputs),
        norm2=total([*(row * row for row in left), *_traces(errors, bool(signature.judged)), *norms], zero),
        goal_norm2=total((row * row for row, k in zip(left, row_objective, strict=True) if k < goal_count), zero),
        levels=levels,
        level_norms2=_level_norms2(squares, scope),
        multiplied=multiplied,
        one_sided=one_sided,
        gradient=tuple(
            total((column[a] * row for row, column in pairs), looped([x.gradient(a) for x in loops])) for a in n
        ),
        errors=tuple(errors),
        row_error2=_largest(shares),
        has_other_rows=bool(loops) or any(one.objective not in met for one in applied),
        rows=tuple(stated),
        residuals=tuple(left),
        jacobian=tuple(tuple(row) for row in columns),
        row_objective=row_objective,
        row_independent=tuple(one.group.independent for one in applied for _ in one.wanted),
        loops=tuple(loops),
    )


def _bodies(robot: KinematicRobot, applied: Sequence[AppliedGroup]) -> set[int]:
    return {place_of(robot, link)[0] for one in applied for element in one.elements for link in element.frames}


def _rows(one: AppliedGroup, values: Sequence[dict[str, Scalar]], graph: ExpressionGraph) -> list[Expression]:
    zero = graph.constant(0.0)
    terms = [transplant([state_rows(one.group).rows[r] for r in one.wanted], own, graph) for own in values]
    return [total(of_row, zero) for of_row in zip(*terms, strict=True)]


def _shifted(
    one: AppliedGroup,
    values: Sequence[dict[str, Scalar]],  # values of the symbols
    name: Callable[[int], str],  # names the variable of a row
    first: int,  # index of the group's first row in the island
    graph: ExpressionGraph,
) -> list[dict[str, Scalar]]:
    """Add a variable per row, beside the limited coordinate, to the values."""
    names = dict(zip(one.group.constants, state_rows(one.group).constant_names, strict=True))
    places: dict[str, Scalar] = {
        names[one.group.shifts[r]]: graph.variable(name(first + k)) for k, r in enumerate(one.wanted)
    }
    return [own | places for own in values]


def _level_norms2(squares: Sequence[tuple[int, Expression]], scope: IslandScope) -> tuple[Expression, ...]:
    """Give unscaled |r|^2 of (all higher-priority rows, the lowest-priority rows); empty if no level has a factor."""
    if not (scope.levels and scope.levels[-1].factor):
        return ()
    norms2 = [scope.graph.constant(0.0)] * 2
    for k, square in squares:
        scale, is_last = scope.scale_of(k), k in scope.levels[-1].objectives
        norms2[is_last] = norms2[is_last] + (square if scale is None else square / (scale * scale))
    return tuple(norms2)


def _turns(quaternions: Sequence[int]) -> list[DataInput]:
    return [
        DataInput(f"turn{a}_{k}", NO_OBJECTIVE, TURN, TURN_WIDTH * q + k)
        for q, a in enumerate(quaternions)
        for k in range(TURN_WIDTH)
    ]


def _fixed_coordinates(robot: KinematicRobot, graph: ExpressionGraph) -> list[DataInput]:
    names = {node.name for node in graph.nodes}
    columns = range(robot.joint_coord_count)
    return [DataInput(fixed_name(c), NO_OBJECTIVE, FIXED, c) for c in columns if fixed_name(c) in names]


def _shares_of_tolerances(
    one: AppliedGroup, plain: Sequence[dict[str, Scalar]], scope: IslandScope, slack: float
) -> list[Expression]:
    """Give squares of (row / (slack * tolerance)) for a group's rows."""
    zero, found = scope.graph.constant(0.0), []
    terms = [transplant([state_rows(one.group).plain[r] for r in one.wanted], own, scope.graph) for own in plain]
    for r, of_row in zip(one.wanted, zip(*terms, strict=True), strict=True):
        share = total(of_row, zero) / (slack * scope.read(one.objective, ROW_TOLERANCES, one.first_row + r))
        found.append(share * share)
    return found


def _largest(values: Sequence[Expression]) -> Expression | None:
    found = values[0] if values else None
    for value in values[1:]:
        found = value.graph.constant(0.0) + maximum(value, found or value)
    return found


def _quaternions(robot: KinematicRobot, dofs: Sequence[int]) -> tuple[int, ...]:
    first = [int(robot.dof_active[robot.joint_qd_start[joint + 1] - 3]) for joint in robot.quaternion_starts]
    return tuple(a for a in first if a in dofs)


def _traces(errors: Sequence[TargetError], has_judged: bool) -> list[Scalar]:
    """Give terms that pass infinity and NaN of rows outside the island (`judged`) on to |r|^2, and add nothing else."""
    parts = [part for error in errors for part in (error.position2, error.chord2) if part is not None]
    return [TRACE * part for part in parts] if has_judged else []


def _target_error(
    one: AppliedGroup, plain: dict[str, Scalar], graph: ExpressionGraph, judged: Sequence[int]
) -> TargetError:
    """Give squared unweighted errors of a pose target, over its rows in the island and its `judged` rows."""
    stated, counted = state_rows(one.group), sorted({*one.wanted, *judged})
    rows = dict(zip(counted, transplant([stated.rows[r] for r in counted], plain, graph), strict=True))
    zero = graph.constant(0.0)
    parts = []
    for block in (range(3), range(3, 6)):
        own = [rows[r] for r in block if r in rows]
        parts.append(total((row * row for row in own), zero) if own else None)
    return TargetError(one.objective, *parts)
