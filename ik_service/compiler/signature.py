"""Signature of an island, the key of its program: equal signatures have equal programs.

A signature has no data: targets, weights of rows, offsets and limits are inputs of a program.
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
    """Return the reason against compiling the objectives of a solver, or None."""
    for objective in objectives:
        if not isinstance(objective, ExpressionObjective):
            return f"{type(objective).__name__} is not stated as expressions"
    return None


@dataclass(frozen=True)
class StatedObjective:
    """Weight and row groups of an objective on a robot."""

    weight: float  # factor of all rows
    groups: tuple[tuple[RowGroup, tuple[Element, ...]], ...]  # row groups with their elements

    @classmethod
    def of(cls, objective: ExpressionObjective, model: IKModel) -> "StatedObjective":
        """Collect the statement of an objective on a robot."""
        groups = objective.stated_elements(model)
        return cls(objective.weight, tuple((group, tuple(map(_hashable, elements))) for group, elements in groups))


@dataclass(frozen=True)
class IslandSignature:
    """Parts of the program of an island; objectives are named by their indices."""

    robot: KinematicRobot = field(compare=False, repr=False)  # comparisons use `content` instead
    content: str  # hash of the robot's content
    objectives: tuple[StatedObjective, ...]  # objectives of the solver
    starts: tuple[int, ...]  # first row of each objective
    dofs: tuple[int, ...]  # active DOFs of the island: all DOFs on which rows depend, or more
    rows: tuple[int, ...]  # rows of the island
    targets: tuple[int, ...]  # pose targets with six rows
    half_angle_error: float  # largest error of sines and cosines
    goal_count: int  # the rows of this many first objectives have goals, given as inputs, instead of 0
    limit_turns: bool  # whether quaternions have a largest rotation from the start, given as inputs
    # rows of pose targets that no DOF can change: these rows count in the errors, and in |r|^2 if infinite or NaN;
    # their targets have other rows in the island
    judged: tuple[int, ...]
    tolerated: tuple[int, ...]  # objectives with row tolerances, given as inputs
    secondary: tuple[int, ...]  # objectives of lower priority: their rows have a factor, given as an input
    tertiary: tuple[int, ...]  # objectives of lowest priority: their rows have another factor
    constraints: tuple[int, ...]  # objectives that are constraints

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
        """Make the signature of an island from its attributes; `model` is a view of the robot.

        Constraints have the highest priority, then targets, then objectives of `secondary`.
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
    return Element(
        tuple(element.frames),
        tuple(element.coordinate_dofs),
        tuple(element.quaternion_joints),
        tuple(element.data_columns),
        tuple(element.constants),
        element.row,
    )
