"""Signature of an island, the value that its program is made from: equal signatures have equal programs.

It holds no data: targets, weights of rows, offsets and limits are inputs of a program.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from ik_service.compiler.half_angle import FLOAT32_ERROR
from ik_service.mechanism.kinematic_robot import KinematicRobot
from objectives import IKModel
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.rows import RowGroup


def uncovered(objectives: Sequence[object]) -> str | None:
    """Return why objectives of a solver cannot be compiled, or None if they can."""
    for objective in objectives:
        if not isinstance(objective, ExpressionObjective):
            return f"{type(objective).__name__} is not stated as expressions"
    return None


@dataclass(frozen=True)
class StatedObjective:
    """Weight and row groups that an objective states on a robot."""

    weight: float  # factor of all rows
    groups: tuple[tuple[RowGroup, tuple[Element, ...]], ...]  # its row groups, and the elements of each

    @classmethod
    def of(cls, objective: ExpressionObjective, model: IKModel) -> "StatedObjective":
        """Ask an objective what it states on a robot."""
        groups = objective.stated_elements(model)
        return cls(objective.weight, tuple((group, tuple(map(_hashable, elements))) for group, elements in groups))


@dataclass(frozen=True)
class IslandSignature:
    """Parts that the program of an island is made from."""

    robot: KinematicRobot = field(compare=False, repr=False)  # the robot; signatures compare its content instead
    content: str  # hash of the robot's content
    objectives: tuple[StatedObjective, ...]  # objectives of the solver
    starts: tuple[int, ...]  # first row of each objective
    dofs: tuple[int, ...]  # active DOFs of the island: at least those on which its rows depend
    rows: tuple[int, ...]  # rows of the island
    targets: tuple[int, ...]  # numbers of the objectives that are pose targets with six rows
    half_angle_error: float  # largest error of sines and cosines
    # the rows of how many of the objectives, the first ones, are to reach numbers that are given as inputs, instead of
    # 0
    goal_count: int
    limit_turns: bool  # whether rotations that have quaternions keep to a largest angle, which is given as inputs
    # rows of pose targets that no DOF can change and that have to be met all the same: they count in the errors, and in
    # |r|^2 where they are not finite; their targets have other rows in the island
    judged: tuple[int, ...]
    tolerated: tuple[int, ...]  # numbers of the objectives whose rows have tolerances, which are read as inputs
    # numbers of the objectives whose rows yield to the others of the island, by a factor that is an input
    secondary: tuple[int, ...]
    tertiary: tuple[int, ...]  # numbers of those whose rows yield to these again, by another
    constraints: tuple[int, ...]  # numbers of the objectives whose rows are constraints

    @classmethod
    def of(
        cls,
        robot: KinematicRobot,
        model: IKModel,
        objectives: Sequence[ExpressionObjective],
        starts: Sequence[int],
        dofs: Sequence[int],
        rows: Sequence[int],
        targets: Collection[int],
        half_angle_error: float = FLOAT32_ERROR,
        goal_count: int = 0,
        limit_turns: bool = False,
        judged: Sequence[int] = (),
        tolerated: Sequence[int] = (),
        constraints: Collection[int] = (),
        secondary: Collection[int] = (),
    ) -> "IslandSignature":
        """Return the signature of an island; the arguments are its attributes, the model a view of the robot.

        All rows yield to those of constraints, and rows of `secondary` to those of targets where there are some.
        """
        of_row = np.repeat(np.arange(len(objectives)), [objective.residual_dim() for objective in objectives])
        own = set(of_row[np.array(rows, int)].tolist())
        first, second = bool(own & set(constraints)), bool(own & set(targets))
        levels = {k: (first and k not in constraints) + (second and k in secondary) for k in own}
        return cls(
            robot=robot,
            content=robot.content_hash,
            objectives=tuple(StatedObjective.of(objective, model) for objective in objectives),
            starts=tuple(starts),
            dofs=tuple(dofs),
            rows=tuple(rows),
            targets=tuple(targets),
            half_angle_error=half_angle_error,
            goal_count=goal_count,
            limit_turns=limit_turns,
            judged=tuple(judged),
            tolerated=tuple(tolerated),
            secondary=tuple(k for k in sorted(own) if levels[k] == 1),
            tertiary=tuple(k for k in sorted(own) if levels[k] == 2),
            constraints=tuple(k for k in sorted(own) if k in constraints),
        )


def _hashable(element: Element) -> Element:
    """Give an element whose sequences are tuples, whatever an objective has put there."""
    return Element(
        tuple(element.frames),
        tuple(element.coordinate_dofs),
        tuple(element.quaternion_joints),
        tuple(element.data_columns),
        tuple(element.constants),
        element.row,
    )
