"""Similar rows as loops: many elements of one row group that differ in numbers and links only.

    elements of a group -> kinds: elements on the same bodies -> one statement for all, and numbers of each element
    derivatives by the twists of the bodies, summed over a kind -> J'J and J'r of the DOFs that move these bodies

One statement compiles quickly, and the sums over a kind do not grow with the number of DOFs. A loop adds variables to
the program: its terms of |r|^2, J'r and J'J.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from ik_service.compiler.applied_rows import AppliedGroup, IslandScope, place_of, transplant
from ik_service.compiler.chain import ORIGIN, compose, constants
from ik_service.compiler.island_program import DataInput, IslandSignature, LoopKind, RowLoop
from ik_service.mechanism.trees import moving_dofs
from objectives.expression import Expression, ExpressionGraph, Scalar
from objectives.expression.frame_algebra import (
    Frame,
    add,
    quaternion,
    quaternion_product,
    rotate,
    scale,
    subtract,
    vector,
)
from objectives.expression.rows import ROW_TOLERANCES, ROW_WEIGHTS, WEIGHT, RowGroup, state_rows

# Smallest number of elements for a loop: rows that are mostly 0 run faster as a loop from here on, other rows from
# about 200 elements on; all compile faster.
LOOP_MIN = 64
TWIST, POSE = 6, 7  # numbers of a twist and of a pose
T = TypeVar("T")


def split_loops(
    applied: Sequence[AppliedGroup], signature: IslandSignature, scope: IslandScope
) -> tuple[list[AppliedGroup], list[RowLoop]]:
    """Split the groups of an island into straight-line groups and loops."""
    similar: dict[tuple[int, RowGroup], list[AppliedGroup]] = {}
    for one in applied:
        judged = one.objective < signature.goal_count or one.objective in signature.targets  # row by row
        if _can_loop(one) and not judged:
            similar.setdefault((one.objective, one.group), []).append(one)
    many = {key: members for key, members in similar.items() if len(members) >= LOOP_MIN}
    straight = [one for one in applied if (one.objective, one.group) not in many or not _can_loop(one)]
    return straight, [_Loop(f"loop{k}", members, signature, scope).rows() for k, members in enumerate(many.values())]


def _can_loop(one: AppliedGroup) -> bool:
    """Return True if all rows of the element are in the island and depend on frames only."""
    group = one.group
    only_frames = bool(group.frames) and not (group.summed or group.coordinates or group.quaternions)
    return only_frames and len(one.wanted) == group.row_count


class _Loop:
    """One loop: statement, numbers of the elements, and DOFs of the kinds."""

    def __init__(
        self, name: str, members: Sequence[AppliedGroup], signature: IslandSignature, scope: IslandScope
    ) -> None:
        self.name, self.scope, self.graph = name, scope, ExpressionGraph()
        self.members = sorted(members, key=self._kind)
        self.group, self.objective = members[0].group, members[0].objective
        self.weight: Scalar = signature.objectives[self.objective].weight
        scale = scope.scale_of(self.objective)
        if scale is not None:
            self.weight = self.weight * self.graph.variable(scale.name)
        self.has_tolerances = self.objective in signature.tolerated
        # numbers that differ from element to element: numbers of the robot, and inputs (field, column)
        self.table, self.inputs = list[list[float]](), list[list[tuple[str, int]]]()

    def _kind(self, one: AppliedGroup) -> tuple[int, ...]:
        return tuple(place_of(self.scope.robot, link)[0] for link in one.elements[0].frames)

    def rows(self) -> RowLoop:
        """Build the loop."""
        stated, graph, rows = state_rows(self.group), self.graph, range(self.group.row_count)
        values = self._values()
        by_frames = stated.frame_derivatives[: 1 if self._is_relative() else None]
        parts = [[part for by_twist in by_frames for part in by_twist[r]] for r in rows]
        weighted, plain = transplant(stated.rows, values, graph), transplant(stated.plain, values, graph)
        shares = (
            [value / self._input(ROW_TOLERANCES, r) for r, value in enumerate(plain)] if self.has_tolerances else []
        )
        bodies, twists = list[int](), list[int]()
        kinds = tuple(self._kinds(bodies, twists))
        chain, zero = self.scope.chain, self.scope.graph.constant(0.0)
        frames = (chain.frames[body] for body in bodies)
        columns = zip(*self.inputs, strict=True)
        return RowLoop(
            name=self.name,
            objective=self.objective,
            is_relative=self._is_relative(),
            rows=tuple(weighted),
            parts=tuple(tuple(transplant(own, values, graph)) for own in parts),
            shares2=tuple(share * share for share in shares),
            kinds=kinds,
            frames=tuple(tuple(zero + x for x in (*frame.position, *frame.orientation_xyzw)) for frame in frames),
            twists=tuple(tuple(zero + x for x in chain.twists[dof]) for dof in twists),
            table=tuple(zip(*self.table, strict=True)),
            inputs=tuple(
                DataInput(f"{self.name}_{e}_{k}", self.objective, column, place)
                for e, own in enumerate(columns)
                for k, (column, place) in enumerate(own)
            ),
        )

    # ------------------------------------------------------------------ the statement
    def _values(self) -> dict[str, Scalar]:
        group, stated, elements = self.group, state_rows(self.group), [one.elements[0] for one in self.members]
        values: dict[str, Scalar] = {WEIGHT: self.weight}
        fields = {}
        for f, ((name, width), names) in enumerate(zip(group.data, stated.data_names, strict=False)):
            fields[name] = tuple(self._datum(name, [one.data_columns[f] + k for one in elements]) for k in range(width))
            values |= dict(zip(names, fields[name], strict=True))
        for k, name in enumerate(stated.constant_names):
            values[name] = self._number([one.constants[k] for one in elements])
        offsets = dict(group.offsets)
        for k, (name, names) in enumerate(zip(group.frames, stated.frame_names, strict=True)):
            frame = self._frame(k, [constants(place_of(self.scope.robot, one.frames[k])[1]) for one in elements])
            if name in offsets:
                frame = compose(frame, fields[offsets[name]])
            values |= dict(zip(names, (*frame.position, *frame.orientation_xyzw), strict=True))
        for r, name in enumerate(stated.data_names[-1]):
            values[name] = self._input(ROW_WEIGHTS, r)
        return values

    def _frame(self, k: int, offsets: Sequence[Sequence[float]]) -> Frame:
        """Give frame k of an element, from the axes of its body, which are common to a kind.

        Relative rows use the position relative to the first body, not to the world origin: sums lose fewer digits.
        """
        first, own = ([self.graph.variable(f"{self.name}_frame{f}_{i}") for i in range(POSE)] for f in (0, k))
        origin = vector(first[:3]) if self._is_relative() else ORIGIN
        body = Frame(subtract(vector(own[:3]), origin), quaternion(own[3:]))
        x, y, z, *turn = (self._number([offset[i] for offset in offsets]) for i in range(POSE))
        position = body.position
        for amount, axis in zip((x, y, z), np.eye(3).tolist(), strict=True):
            position = add(position, scale(amount, rotate(body.orientation_xyzw, vector(axis))))
        return Frame(position, quaternion_product(body.orientation_xyzw, quaternion(turn)))

    def _number(self, values: Sequence[float]) -> Scalar:
        """Give a number of the robot: a constant if equal for all elements, else a column of the table."""
        if len(set(values)) == 1:
            return values[0]
        return self.graph.variable(f"{self.name}_number{_place(self.table, list(values))}")

    def _datum(self, name: str, places: Sequence[int]) -> Expression:
        """Give a number of the objective's data: a common input if columns are equal, else an input per element."""
        if len(set(places)) == 1:
            return self.graph.variable(self.scope.read(self.objective, name, places[0]).name)
        self.inputs.append([(name, place) for place in places])
        return self.graph.variable(f"{self.name}_input{len(self.inputs) - 1}")

    def _input(self, name: str, row: int) -> Expression:
        return self._datum(name, [one.first_row + row for one in self.members])

    # ------------------------------------------------------------------ DOFs
    def _is_relative(self) -> bool:
        """Return True if the derivatives by the twists of both frames are opposite."""
        return state_rows(self.group).has_opposite_frames

    def _kinds(self, bodies: list[int], twists: list[int]) -> Iterator[LoopKind]:
        """Give the kinds of elements in order; append their bodies and DOFs to `bodies` and `twists`."""
        keys = [self._kind(one) for one in self.members]
        place = {dof: k for k, dof in enumerate(self.scope.dofs)}
        robot, first = self.scope.robot, 0
        while first < len(keys):
            own = keys[first]
            end = first + keys[first:].count(keys[first])
            moving = [moving_dofs(robot, body) for body in own]
            common = np.all(moving, axis=0) & state_rows(self.group).common_motion_cancels
            entries, columns = list[tuple[int, int, int, float]](), list[int]()
            for frame, dofs in enumerate(moving):
                block, sign = (0, 1.0 - 2.0 * frame) if self._is_relative() else (TWIST * frame, 1.0)
                for dof in np.flatnonzero(dofs & ~common).tolist():
                    active = int(robot.dof_active[dof])
                    if active in place:
                        column = _place(columns, place[active])
                        entries.append((column, block, _place(twists, dof), sign * float(robot.dof_multiplier[dof])))
            frames = tuple(_place(bodies, body) for body in own)
            yield LoopKind(frames, first, end, tuple(columns), tuple(entries))
            first = end


def _place(values: list[T], value: T) -> int:
    """Give the index of a value in a list; append a new value."""
    if value not in values:
        values.append(value)
    return values.index(value)
