"""Row groups of the objectives applied to elements of a robot: rows of an island, their symbols and derivatives.

A group is stated in a graph of its own; its expressions are rebuilt in the graph of the island.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ik_service.compiler.chain import Chain, compose, constants, coordinate, quaternion_coordinate
from ik_service.compiler.island_program import NO_OBJECTIVE, DataInput, Level, StatedObjective, total
from ik_service.mechanism.kinematic_robot import KinematicRobot, host_model
from ik_service.mechanism.trees import moving_dofs
from objectives.expression import Expression, ExpressionGraph, Scalar, functions, reachable
from objectives.expression.element_table import Element
from objectives.expression.frame_algebra import Frame
from objectives.expression.graph import RULES, Operation
from objectives.expression.rows import ROW_WEIGHTS, WEIGHT, RowGroup, state_rows
from objectives.model import BodyFrame, FloatArray, RobotIndices


def transplant(outputs: Sequence[Expression], values: Mapping[str, Scalar], graph: ExpressionGraph) -> list[Expression]:
    """Rebuild expressions in `graph`, one per output, with constants folded.

    `values` has an expression of `graph` or a number for each variable.
    """
    zero = graph.constant(0.0)
    made: dict[Expression, Expression] = {}
    for node in reachable(outputs):
        if node.operation is Operation.VARIABLE:
            result: Scalar = values[node.name]
        elif node.value is not None:
            result = node.value
        else:
            apply = RULES.get(node.operation) or getattr(functions, node.operation.value)  # named like the operation
            result = apply(*(made[operand] for operand in node.operands))
        made[node] = zero + result
    return [made[output] for output in outputs]


@dataclass(frozen=True)
class AppliedGroup:
    """A row group on one element, or on all elements of a summed group."""

    objective: int  # index of the objective
    group: RowGroup
    elements: tuple[Element, ...]
    first_row: int  # first row within the objective
    wanted: tuple[int, ...]  # rows of the group in the island


@dataclass(frozen=True)
class IslandScope:
    """Robot, expression graph and data inputs of the rows of an island."""

    robot: KinematicRobot
    graph: ExpressionGraph
    dofs: Sequence[int]  # active DOFs of the island
    levels: Sequence[Level]  # of the island
    chain: Chain  # frames and twists of the bodies read by rows
    start: Chain  # frames of bodies at the start of the problem or tick, for rows on motions
    inputs: dict[str, DataInput]  # data read by rows so far, by name of the variable

    def read(self, objective: int, field: str, column: int) -> Expression:
        """Make a variable for a number of an objective's data."""
        name = f"data{objective}_{field}_{column}"
        self.inputs.setdefault(name, DataInput(name, objective, field, column))
        return self.graph.variable(name)

    def scale_of(self, objective: int) -> Expression | None:
        """Make a variable for the factor of the level of an objective; None without a factor."""
        (field,) = (level.factor for level in self.levels if objective in level.objectives)
        if not field:
            return None
        self.inputs.setdefault(field, DataInput(field, NO_OBJECTIVE, field, 0))
        return self.graph.variable(field)

    def frame(self, link: str | int | BodyFrame, chain: Chain | None = None) -> Frame:
        """Give the frame of a link, of a body, or a frame fixed to a body; by default in the island's chain."""
        body, offset = place_of(self.robot, link)
        return compose((chain or self.chain).frames[body], constants(offset))


def place_of(robot: KinematicRobot, link: str | int | BodyFrame) -> tuple[int, FloatArray]:
    """Give the body that carries a link, -1 for the world, and T_body_link."""
    return RobotIndices(host_model(robot)).frame(link)


def applied_groups(objective: StatedObjective, index: int, wanted: set[int]) -> list[AppliedGroup]:
    """Collect the elements of an objective with rows in the island."""
    found, row = [], 0
    for group, elements in objective.groups:
        together = [elements] if group.summed and elements else [(element,) for element in elements]
        for e, own in enumerate(together):
            first = row + group.first_row(e) if own[0].row is None else own[0].row
            rows = tuple(r for r in range(group.row_count) if first + r in wanted)
            if rows:
                found.append(AppliedGroup(index, group, own, first, rows))
        row += len(together) * group.row_count
    return found


def bind(
    one: AppliedGroup, element: Element, objective: StatedObjective, scope: IslandScope
) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    """Give values for the symbols of a group on an element: with weights, and with weights of 1."""
    stated, group = state_rows(one.group), one.group
    values: dict[str, Scalar] = {}
    fields = _starts(one, element, scope)
    for (field, width), names, first in zip(group.data, stated.data_names, element.data_columns, strict=False):
        if field not in fields:
            fields[field] = tuple(scope.read(one.objective, field, first + k) for k in range(width))
        values |= dict(zip(names, fields[field], strict=True))
    offsets = dict(group.offsets)
    for name, names, link in zip(group.frames, stated.frame_names, element.frames, strict=True):
        frame = scope.frame(link)
        if name in offsets:
            frame = compose(frame, fields[offsets[name]])
        values |= dict(zip(names, (*frame.position, *frame.orientation_xyzw), strict=True))
    values |= dict(zip(stated.constant_names, element.constants, strict=True))
    for name, dof in zip(stated.coordinate_names, element.coordinate_dofs, strict=True):
        values[name] = coordinate(scope.robot, dof, scope.graph, scope.dofs)
    for names, joint in zip(stated.quaternion_names, element.quaternion_joints, strict=True):
        values |= dict(zip(names, quaternion_coordinate(scope.robot, joint, scope.graph, scope.dofs), strict=True))
    plain = values | dict.fromkeys(stated.data_names[-1], 1.0) | {WEIGHT: 1.0}
    for r in one.wanted:
        values[stated.data_names[-1][r]] = scope.read(one.objective, ROW_WEIGHTS, one.first_row + r)
    scale = scope.scale_of(one.objective)
    values[WEIGHT] = objective.weight if scale is None else objective.weight * scale
    return values, plain


def _starts(one: AppliedGroup, element: Element, scope: IslandScope) -> dict[str, tuple[Scalar, ...]]:
    """Give relative poses of an element's frames at the start, by data field."""
    links = dict(zip(one.group.frames, element.frames, strict=True))
    found: dict[str, tuple[Scalar, ...]] = {}
    for field, *names in one.group.starts:
        frame, reference = (scope.frame(links[name], scope.start) for name in names)
        place = frame.relative_to(reference)
        found[field] = (*place.position, *place.orientation_xyzw)
    return found


def jacobian_row(
    one: AppliedGroup, row: int, values: Sequence[dict[str, Scalar]], scope: IslandScope
) -> list[Expression]:
    """Give the derivatives of a row by the active DOFs of the island."""
    robot, graph, stated = scope.robot, scope.graph, state_rows(one.group)
    zero = graph.constant(0.0)
    place = {dof: k for k, dof in enumerate(scope.dofs)}
    result = [zero] * len(scope.dofs)

    def add(dof: int, term: Scalar) -> None:
        active = int(robot.dof_active[dof])
        if active in place:
            result[place[active]] = result[place[active]] + term * float(robot.dof_multiplier[dof])

    by_twists = _summed_by_twists if one.group.summed else _by_twists
    for dof, parts in by_twists(one, row, values, scope):
        add(dof, total((p * t for p, t in zip(parts, scope.chain.twists[dof], strict=True)), zero))
    for element, own in zip(one.elements, values, strict=True):
        for k, dof in enumerate(element.coordinate_dofs):
            add(dof, transplant([stated.coordinate_derivatives[k][row]], own, graph)[0])
        for k, joint in enumerate(element.quaternion_joints):
            first = int(robot.joint_qd_start[joint + 1]) - 3
            for m, part in enumerate(transplant(stated.quaternion_derivatives[k][row], own, graph)):
                add(first + m, part)
    return result


def _by_twists(
    one: AppliedGroup, row: int, values: Sequence[dict[str, Scalar]], scope: IslandScope
) -> Iterator[tuple[int, Sequence[Expression]]]:
    """Give the DOFs that move an element's frames, each with the derivative by the moved frame's twist."""
    robot, stated = scope.robot, state_rows(one.group)
    (element,), (own,) = one.elements, values
    moving = [moving_dofs(robot, place_of(robot, link)[0]) for link in element.frames]
    common = np.all(moving, axis=0) & stated.common_motion_cancels
    for k, by_twist in enumerate(stated.frame_derivatives):
        parts = transplant(by_twist[row], own, scope.graph)
        for dof in np.flatnonzero(moving[k] & ~common).tolist():
            yield dof, parts


def _summed_by_twists(
    one: AppliedGroup, row: int, values: Sequence[dict[str, Scalar]], scope: IslandScope
) -> Iterator[tuple[int, Sequence[Expression]]]:
    """Give the same for a summed group: all frames behind a DOF have one twist, so their derivatives add up."""
    robot, stated = scope.robot, state_rows(one.group)
    behind: dict[int, list[Expression]] = {}

    def add(body: int, parts: Sequence[Expression]) -> None:
        behind[body] = [a + b for a, b in zip(behind[body], parts, strict=True)] if body in behind else list(parts)

    for element, own in zip(one.elements, values, strict=True):
        for k, link in enumerate(element.frames):
            add(place_of(robot, link)[0], transplant(stated.frame_derivatives[k][row], own, scope.graph))
    for body in reversed(range(robot.body_count)):  # parents stand before their children
        if body in behind:
            add(int(robot.joint_parent[body]), behind[body])
    for body in sorted(behind.keys() - {-1}):
        for dof in range(int(robot.joint_qd_start[body]), int(robot.joint_qd_start[body + 1])):
            yield dof, behind[body]
