"""The arithmetic of one island: rows, their Jacobian and the normal equations at a trial configuration.

    DOFs of the island (variables) -> forward kinematics -> frames and twists
    statements of the objectives -> rows and derivatives by twist, transplanted onto those frames
    Jacobian columns -> J'J (lower triangle), J'r, |r|^2, and the errors of the pose targets

Everything is one graph of scalar expressions; how wide a scalar is, is the emitter's business.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ik_service.compiler.program.chain import (
    Chain,
    build_chain,
    compose,
    constants,
    coordinate,
    fixed_name,
    quaternion_coordinate,
)
from ik_service.compiler.program.half_angle import FLOAT32_ERROR
from ik_service.compiler.program.transplant import transplant
from ik_service.robots import JointType
from ik_service.robots.kinematic_robot import KinematicRobot
from objectives import IKModel
from objectives.element_table import Element
from objectives.expression import Expression, ExpressionGraph, Scalar
from objectives.expression_objective import ExpressionObjective
from objectives.frame_algebra import Frame
from objectives.robot_indices import BodyFrame
from objectives.statement.rows import ROW_WEIGHTS, WEIGHT, RowGroup, StatedRows, state_rows

NO_OBJECTIVE = -1
GOAL, TURN, FIXED = "goal", "turn", "fixed"
TURN_WIDTH = 5  # numbers of a turn's limit
# Factor that loses any number beside |r|^2 and yet passes on what is infinite or no number.
TRACE = 1e-200


@dataclass(frozen=True)
class DataInput:
    """A number that the program reads per problem: variable name, objective, field, column.

    Those of no objective: with field FIXED the coordinate `column` of the problem's start, which no active DOF moves;
    with field GOAL what row `column` is to reach instead of 0; with field TURN, five for each quaternion: where it
    starts, xyzw, and the sine of half the largest angle by which it may turn from there.
    """

    name: str
    objective: int
    field: str
    column: int


@dataclass(frozen=True)
class TargetError:
    """Squared errors of one pose target, over the rows that the island solves or judges; None where it has none."""

    target: int
    position2: Expression | None
    chord2: Expression | None


@dataclass(frozen=True)
class IslandProgram:
    """One island's arithmetic.

    Attributes:
        graph: The expressions.
        dofs: Active DOFs of the island, in order.
        quaternions: Those at which the rotation of a ball or floating joint starts; the next two belong to it.
        halves: Reduced half angles that the program needs: variable -> (variable of an angle, multiplier, offset).
        inputs: Data that it reads per problem.
        norm2: |r|^2, r the rows less their goals; not finite where a row is not that is only judged.
        goal_norm2: The same of the rows that may have goals.
        gradient: J'r, per DOF.
        hessian: J'J, lower triangle, rows of 1, 2, ... entries.
        errors: Errors of the pose targets.
        has_other_rows: Whether there are rows besides those of the pose targets.
        rows: The weighted rows, without goals.
        jacobian: Their Jacobian, [rows][dofs].
        row_objective: The objective that each row is of.
        row_independent: Whether it is one of rows that can all be met, see `RowGroup`.
    """

    graph: ExpressionGraph
    dofs: tuple[int, ...]
    quaternions: tuple[int, ...]
    halves: dict[str, tuple[str, float, float]]
    inputs: tuple[DataInput, ...]
    norm2: Expression
    goal_norm2: Expression
    gradient: tuple[Expression, ...]
    hessian: tuple[tuple[Expression, ...], ...]
    errors: tuple[TargetError, ...]
    has_other_rows: bool
    rows: tuple[Expression, ...]
    jacobian: tuple[tuple[Expression, ...], ...]
    row_objective: tuple[int, ...]
    row_independent: tuple[bool, ...]

    @property
    def coupled(self) -> list[tuple[int, int]]:
        """Pairs of DOFs, (later, earlier), whose entry of J'J is not zero for all data."""
        pairs = ((k, m) for k in range(len(self.dofs)) for m in range(k))
        return [(self.dofs[k], self.dofs[m]) for k, m in pairs if not self.hessian[k][m].is_zero]


@dataclass(frozen=True)
class _Applied:
    """What an objective applies a row group to: an element, or all whose rows add up; and the rows wanted of it."""

    objective: int
    group: RowGroup
    elements: tuple[Element, ...]
    first_row: int  # within the objective
    wanted: tuple[int, ...]  # rows of the group


def build_program(
    robot: KinematicRobot,
    model: IKModel,
    objectives: Sequence[ExpressionObjective],
    starts: Sequence[int],
    dofs: Sequence[int],
    rows: Sequence[int],
    target_count: int,
    half_angle_error: float = FLOAT32_ERROR,
    goal_count: int = 0,
    limit_turns: bool = False,
    judged: Sequence[int] = (),
) -> IslandProgram:
    """Return the program of an island.

    Args:
        robot: The robot.
        model: Its view, which the objectives read.
        objectives: Objectives of the solver, pose targets first.
        starts: First row of each objective.
        dofs: Active DOFs of the island: at least those on which its rows depend.
        rows: Rows of the island.
        target_count: How many of the objectives are pose targets with six rows.
        half_angle_error: Largest error of sines and cosines.
        goal_count: The rows of how many of the objectives, the first ones, are to reach numbers that are given as
            inputs, instead of 0.
        limit_turns: Whether rotations that have quaternions keep to a largest angle, which is given as inputs.
        judged: Rows of pose targets that no DOF can change and that have to be met all the same: they count in the
            errors, and in |r|^2 where they are not finite. Their targets have other rows in the island.
    """
    graph = ExpressionGraph()
    applied = [
        one
        for k, objective in enumerate(objectives)
        for one in _applied(objective, k, {row - starts[k] for row in rows}, model)
    ]
    bodies = {_body(robot, link) for one in applied for element in one.elements for link in element.frames}
    chain = build_chain(robot, bodies, graph, dofs, half_angle_error)
    stated_rows: list[Expression] = []
    columns: list[list[Expression]] = []
    inputs: dict[str, DataInput] = {}
    errors, zero = [], graph.constant(0.0)
    for one in applied:
        stated, objective = state_rows(one.group), objectives[one.objective]
        bound = [_bind(one, element, objective, robot, chain, graph, dofs, inputs) for element in one.elements]
        terms = [transplant([stated.rows[r] for r in one.wanted], values, graph) for values, _ in bound]
        stated_rows += [_sum(of_row, zero) for of_row in zip(*terms, strict=True)]
        weighted = [values for values, _ in bound]
        columns += [_jacobian_row(one, stated, r, weighted, robot, chain, dofs, graph) for r in one.wanted]
        if one.objective < target_count:
            first = starts[one.objective] + one.first_row
            further = [row - first for row in judged if 0 <= row - first < one.group.row_count]
            errors.append(_target_error(one, stated, bound[0][1], graph, further))
    row_objective = tuple(one.objective for one in applied for _ in one.wanted)
    goals = [DataInput(f"goal{r}", NO_OBJECTIVE, GOAL, r) for r, k in enumerate(row_objective) if k < goal_count]
    left: list[Scalar] = list(stated_rows)
    for goal in goals:
        left[goal.column] = left[goal.column] - graph.variable(goal.name)
    pairs = list(zip(left, columns, strict=True))
    n, quaternions = range(len(dofs)), _quaternions(robot, dofs)
    turns = [
        DataInput(f"turn{a}_{k}", NO_OBJECTIVE, TURN, TURN_WIDTH * q + k)
        for q, a in enumerate(quaternions if limit_turns else ())
        for k in range(TURN_WIDTH)
    ]
    return IslandProgram(
        graph=graph,
        dofs=tuple(dofs),
        quaternions=quaternions,
        halves=dict(chain.halves),
        inputs=(*inputs.values(), *_fixed_coordinates(robot, graph), *turns, *goals),
        norm2=_sum([*(row * row for row in left), *_traces(errors, bool(judged))], zero),
        goal_norm2=_sum((row * row for row, k in zip(left, row_objective, strict=True) if k < goal_count), zero),
        gradient=tuple(_sum((column[a] * row for row, column in pairs), zero) for a in n),
        hessian=tuple(tuple(_sum((c[a] * c[b] for c in columns), zero) for b in range(a + 1)) for a in n),
        errors=tuple(errors),
        has_other_rows=any(one.objective >= target_count for one in applied),
        rows=tuple(stated_rows),
        jacobian=tuple(tuple(row) for row in columns),
        row_objective=row_objective,
        row_independent=tuple(one.group.independent for one in applied for _ in one.wanted),
    )


def _fixed_coordinates(robot: KinematicRobot, graph: ExpressionGraph) -> list[DataInput]:
    """Coordinates of locked joints and their followers that the program reads."""
    names = {node.name for node in graph.nodes}
    columns = range(robot.joint_coord_count)
    return [DataInput(fixed_name(c), NO_OBJECTIVE, FIXED, c) for c in columns if fixed_name(c) in names]


def _quaternions(robot: KinematicRobot, dofs: Sequence[int]) -> tuple[int, ...]:
    turning = [j for j, kind in enumerate(robot.joint_type) if JointType(kind).quaternion_offset is not None]
    first = [int(robot.dof_active[robot.joint_qd_start[joint + 1] - 3]) for joint in turning]
    return tuple(a for a in first if a in dofs)


def _sum(terms: Iterable[Scalar], zero: Expression) -> Expression:
    total = zero
    for term in terms:
        total = total + term
    return total


def _body(robot: KinematicRobot, link: str | int | BodyFrame) -> int:
    if isinstance(link, BodyFrame):
        return link.body
    return link if isinstance(link, int) else robot.link_frame(link)[0]


def _link_frame(robot: KinematicRobot, chain: Chain, link: str | int | BodyFrame) -> Frame:
    if isinstance(link, int):
        return chain.frames[link]
    if isinstance(link, BodyFrame):
        return compose(chain.frames[link.body], constants(np.array(link.T_body_frame)))
    body, offset = robot.link_frame(link)
    return compose(chain.frames[body], constants(offset))


def _applied(objective: ExpressionObjective, index: int, wanted: set[int], model: IKModel) -> list[_Applied]:
    """Elements of an objective that have rows in the island."""
    found, row = [], 0
    for group, elements in objective.stated_elements(model):
        together = [tuple(elements)] if group.summed and elements else [(element,) for element in elements]
        for e, own in enumerate(together):
            first = row + group.first_row(e) if own[0].row is None else own[0].row
            rows = tuple(r for r in range(group.row_count) if first + r in wanted)
            if rows:
                found.append(_Applied(index, group, own, first, rows))
        row += len(together) * group.row_count
    return found


def _bind(
    one: _Applied,
    element: Element,
    objective: ExpressionObjective,
    robot: KinematicRobot,
    chain: Chain,
    graph: ExpressionGraph,
    dofs: Sequence[int],
    inputs: dict[str, DataInput],
) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    """What stands for the variables of a group's symbols in an element: with its weights, and with weights of 1."""
    stated, group = state_rows(one.group), one.group
    values: dict[str, Scalar] = {}

    def read(field: str, column: int) -> Expression:
        name = f"data{one.objective}_{field}_{column}"
        inputs.setdefault(name, DataInput(name, one.objective, field, column))
        return graph.variable(name)

    fields = {}
    for (field, width), names, first in zip(group.data, stated.data_names, element.data_columns, strict=False):
        fields[field] = tuple(read(field, first + k) for k in range(width))
        values |= dict(zip(names, fields[field], strict=True))
    offsets = dict(group.offsets)
    for name, names, link in zip(group.frames, stated.frame_names, element.frames, strict=True):
        frame = _link_frame(robot, chain, link)
        if name in offsets:
            frame = compose(frame, fields[offsets[name]])
        values |= dict(zip(names, (*frame.position, *frame.orientation_xyzw), strict=True))
    values |= dict(zip(stated.constant_names, element.constants, strict=True))
    for name, dof in zip(stated.coordinate_names, element.coordinate_dofs, strict=True):
        values[name] = coordinate(robot, dof, graph, dofs)
    for names, joint in zip(stated.quaternion_names, element.quaternion_joints, strict=True):
        values |= dict(zip(names, quaternion_coordinate(robot, joint, graph, dofs), strict=True))
    plain = values | dict.fromkeys(stated.data_names[-1], 1.0) | {WEIGHT: 1.0}
    for r in one.wanted:
        values[stated.data_names[-1][r]] = read(ROW_WEIGHTS, one.first_row + r)
    values[WEIGHT] = objective.weight
    return values, plain


def _jacobian_row(
    one: _Applied,
    stated: StatedRows,
    row: int,
    values: Sequence[dict[str, Scalar]],
    robot: KinematicRobot,
    chain: Chain,
    dofs: Sequence[int],
    graph: ExpressionGraph,
) -> list[Expression]:
    """Derivatives of a row by the active DOFs of the island."""
    zero = graph.constant(0.0)
    place = {dof: k for k, dof in enumerate(dofs)}
    result = [zero] * len(dofs)

    def add(dof: int, term: Scalar) -> None:
        active = int(robot.dof_active[dof])
        if active in place:
            result[place[active]] = result[place[active]] + term * float(robot.dof_multiplier[dof])

    by_twists = _summed_by_twists if one.group.summed else _by_twists
    for dof, parts in by_twists(one, stated, row, values, robot, graph):
        add(dof, _sum((p * t for p, t in zip(parts, chain.twists[dof], strict=True)), zero))
    for element, own in zip(one.elements, values, strict=True):
        for k, dof in enumerate(element.coordinate_dofs):
            add(dof, transplant([stated.coordinate_derivatives[k][row]], own, graph)[0])
        for k, joint in enumerate(element.quaternion_joints):
            first = int(robot.joint_qd_start[joint + 1]) - 3
            for m, part in enumerate(transplant(stated.quaternion_derivatives[k][row], own, graph)):
                add(first + m, part)
    return result


def _by_twists(
    one: _Applied,
    stated: StatedRows,
    row: int,
    values: Sequence[dict[str, Scalar]],
    robot: KinematicRobot,
    graph: ExpressionGraph,
) -> Iterator[tuple[int, Sequence[Expression]]]:
    """DOFs that move the frames of an element, each with the derivative by the twist that it gives to one of them."""
    (element,), (own,) = one.elements, values
    moving = [_moving(robot, _body(robot, link)) for link in element.frames]
    common = set.intersection(*moving) if stated.common_motion_cancels and moving else set()
    for k, by_twist in enumerate(stated.frame_derivatives):
        parts = transplant(by_twist[row], own, graph)
        for dof in sorted(moving[k] - common):
            yield dof, parts


def _summed_by_twists(
    one: _Applied,
    stated: StatedRows,
    row: int,
    values: Sequence[dict[str, Scalar]],
    robot: KinematicRobot,
    graph: ExpressionGraph,
) -> Iterator[tuple[int, Sequence[Expression]]]:
    """The same for elements that add up: a DOF gives all that is behind it one twist, so their derivatives add up."""
    behind: dict[int, list[Expression]] = {}

    def add(body: int, parts: Sequence[Expression]) -> None:
        behind[body] = [a + b for a, b in zip(behind[body], parts, strict=True)] if body in behind else list(parts)

    for element, own in zip(one.elements, values, strict=True):
        for k, link in enumerate(element.frames):
            add(_body(robot, link), transplant(stated.frame_derivatives[k][row], own, graph))
    for body in reversed(range(robot.body_count)):  # parents stand before their children
        if body in behind:
            add(int(robot.joint_parent[body]), behind[body])
    for body in sorted(behind.keys() - {-1}):
        for dof in range(int(robot.joint_qd_start[body]), int(robot.joint_qd_start[body + 1])):
            yield dof, behind[body]


def _traces(errors: Sequence[TargetError], has_judged: bool) -> list[Scalar]:
    """What rows that are only judged add to |r|^2: nothing, unless they are not finite."""
    parts = [part for error in errors for part in (error.position2, error.chord2) if part is not None]
    return [TRACE * part for part in parts] if has_judged else []


def _moving(robot: KinematicRobot, body: int) -> set[int]:
    """DOFs that move a body."""
    found: set[int] = set()
    while body >= 0:
        found |= set(range(int(robot.joint_qd_start[body]), int(robot.joint_qd_start[body + 1])))
        body = int(robot.joint_parent[body])
    return found


def _target_error(
    one: _Applied, stated: StatedRows, plain: dict[str, Scalar], graph: ExpressionGraph, judged: Sequence[int]
) -> TargetError:
    """Squared errors of a pose target, without weights, over the rows wanted of it and those that are only judged."""
    counted = sorted({*one.wanted, *judged})
    rows = dict(zip(counted, transplant([stated.rows[r] for r in counted], plain, graph), strict=True))
    zero = graph.constant(0.0)
    parts = []
    for block in (range(3), range(3, 6)):
        own = [rows[r] for r in block if r in rows]
        parts.append(_sum((row * row for row in own), zero) if own else None)
    return TargetError(one.objective, *parts)
