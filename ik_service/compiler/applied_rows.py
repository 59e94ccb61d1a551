"""Row groups of the objectives applied to elements of a robot: rows of an island, and values of their symbols."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ik_service.compiler.chain import Chain, compose, constants, coordinate, quaternion_coordinate
from ik_service.compiler.island_program import NO_OBJECTIVE, SECONDARY, TERTIARY, DataInput
from ik_service.compiler.signature import StatedObjective
from ik_service.mechanism.kinematic_robot import KinematicRobot
from objectives.expression import Expression, ExpressionGraph, Scalar
from objectives.expression.element_table import Element
from objectives.expression.frame_algebra import Frame
from objectives.expression.rows import ROW_WEIGHTS, WEIGHT, RowGroup, state_rows
from objectives.robot_indices import BodyFrame


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
    secondary: Sequence[int]  # indices of the objectives of lower priority
    tertiary: Sequence[int]  # indices of the objectives of lowest priority
    chain: Chain  # frames and twists of the bodies read by rows
    start: Chain  # frames of bodies at the start of the problem or tick, for rows on motions
    inputs: dict[str, DataInput]  # data read by rows so far, by name of the variable

    def read(self, objective: int, field: str, column: int) -> Expression:
        """Make a variable for a number of an objective's data."""
        name = f"data{objective}_{field}_{column}"
        self.inputs.setdefault(name, DataInput(name, objective, field, column))
        return self.graph.variable(name)

    def scale_of(self, objective: int) -> Expression | None:
        """Make a variable for the factor of an objective's rows of lower priority; None for the highest priority."""
        if objective not in (*self.secondary, *self.tertiary):
            return None
        field = SECONDARY if objective in self.secondary else TERTIARY
        self.inputs.setdefault(field, DataInput(field, NO_OBJECTIVE, field, 0))
        return self.graph.variable(field)

    def frame(self, link: str | int | BodyFrame, chain: Chain | None = None) -> Frame:
        """Give the frame of a link, of a body, or a frame fixed to a body; by default in the island's chain."""
        frames = (chain or self.chain).frames
        if isinstance(link, int):
            return frames[link]
        if isinstance(link, BodyFrame):
            return compose(frames[link.body], constants(np.array(link.T_body_frame)))
        body, offset = self.robot.link_frame(link)
        return compose(frames[body], constants(offset))


def body_of(robot: KinematicRobot, link: str | int | BodyFrame) -> int:
    """Give the body that carries a link, -1 for the world."""
    if isinstance(link, BodyFrame):
        return link.body
    return link if isinstance(link, int) else robot.link_frame(link)[0]


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
