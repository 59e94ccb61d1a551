"""Program of one island, as scalar expressions at a trial configuration, and its key, the signature.

Equal signatures have equal programs. A signature has no data: targets, weights of rows, offsets and limits are inputs
of a program.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ik_service.compiler.half_angle import FLOAT32_ERROR
from ik_service.mechanism.kinematic_robot import KinematicRobot
from objectives import IKModel
from objectives.expression import Expression, ExpressionGraph, Scalar
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


FACTORS = "secondary_scale", "tertiary_scale"  # inputs of a solve: factors of the rows of level 1 and of level 2


@dataclass(frozen=True)
class Level:
    """Objectives of one priority in an island; their rows act in the null space of the rows of all earlier levels."""

    objectives: tuple[int, ...]
    is_closing: bool  # whether these are the constraints
    factor: str  # one of FACTORS; empty for the first level, and in a tick, which solves one level after another


def level_numbers(
    is_constraint: NDArray[np.bool_],
    is_target: NDArray[np.bool_],
    is_secondary: NDArray[np.bool_],
    own: NDArray[np.bool_],  # whether an island has the row
) -> NDArray[np.intp]:
    """Number the levels of rows, or of objectives: constraints, targets and priority 0, priority 1 beside targets.

    Levels without rows have no number, so the first number is 0. Shape [rows] or [rows, islands].
    """
    has_constraint, has_target = (own & is_constraint).any(axis=0), (own & is_target).any(axis=0)
    return np.asarray((has_constraint & ~is_constraint).astype(int) + (has_target & is_secondary))


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
    levels: tuple[Level, ...]  # of the island's objectives, highest priority first

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
        secondary: Collection[int] = (),  # objectives of priority 1
    ) -> "IslandSignature":
        """Make the signature of an island from its attributes; `model` is a view of the robot."""
        of_row = np.repeat(np.arange(len(objectives)), [objective.residual_dim() for objective in objectives])
        own = np.unique(of_row[np.array(rows, int)])
        first, second, later = (np.isin(own, [*some]) for some in (constraints, targets, secondary))
        numbers = level_numbers(first, second, later, np.ones(len(own), bool))
        levels = [tuple(own[numbers == number].tolist()) for number in range(int(numbers.max(initial=-1)) + 1)]
        factors = ("", *FACTORS) if goal_count == 0 else ("", "", "")
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
            levels=tuple(
                Level(own, own[0] in constraints, factor) for own, factor in zip(levels, factors, strict=False)
            ),
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


NO_OBJECTIVE = -1
GOAL, TURN, FIXED = "goal", "turn", "fixed"
TURN_WIDTH = 5  # numbers of a rotation limit


@dataclass(frozen=True)
class DataInput:
    """A number read per problem: variable name, objective, field, column.

    Fields of no objective: FIXED, coordinate `column` at the start of the problem or tick; GOAL, the goal of row
    `column` instead of 0; TURN, five numbers per quaternion: the start, xyzw, and the sine of half the largest angle
    from the start; one of FACTORS, the factor of the rows of a later level.
    """

    name: str
    objective: int
    field: str
    column: int


@dataclass(frozen=True)
class TargetError:
    """Squared errors of one pose target, over the rows solved or judged in the island; None without such rows."""

    target: int
    position2: Expression | None
    chord2: Expression | None


@dataclass(frozen=True)
class LoopKind:
    """Elements of a loop on the same bodies."""

    frames: tuple[int, ...]  # indices of the bodies of the frames
    first: int  # first element
    end: int  # last element + 1
    columns: tuple[int, ...]  # DOFs that move the frames, by place in the island
    # motion of a frame by a DOF: index in `columns`, first of the frame's parts, index of the twist, factor
    entries: tuple[tuple[int, int, int, float], ...]


@dataclass(frozen=True)
class RowLoop:
    """Rows of many elements that differ in numbers and links only.

    Variables of the statement: frames of the bodies (`NAME_frame0_0` to 6, `NAME_frame1_0`, ...), numbers of the
    element in the table (`NAME_number0`, ...), inputs of the element (`NAME_input0`, ...), and inputs of the program.
    """

    name: str  # prefix of the variables
    objective: int  # index of the objective
    is_relative: bool  # whether twists are taken at the body of the first frame, not at the world origin
    rows: tuple[Expression, ...]  # weighted rows of an element; `rows`, `parts` and `shares2` have their own graph
    # derivatives of each row by the twists of the frames; by the first twist alone if the two are opposite
    parts: tuple[tuple[Expression, ...], ...]
    shares2: tuple[Expression, ...]  # squares of (unweighted row / tolerance); empty without tolerances
    kinds: tuple[LoopKind, ...]
    frames: tuple[tuple[Expression, ...], ...]  # position and orientation xyzw of bodies, in the program's graph
    twists: tuple[tuple[Expression, ...], ...]  # twists of DOFs, in the program's graph
    table: tuple[tuple[float, ...], ...]  # numbers of each element
    inputs: tuple[DataInput, ...]  # data of all elements, element by element

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.kinds[-1].end

    @property
    def norm2(self) -> str:
        """Variable of the program for |r|^2 of the rows."""
        return f"{self.name}_norm2"

    @property
    def error2(self) -> str:
        """Variable of the program for the largest of `shares2`."""
        return f"{self.name}_error2"

    def gradient(self, place: int) -> str | None:
        """Name the variable for J'r of a DOF, by place in the island; None if no row depends on the DOF."""
        touched = any(place in kind.columns for kind in self.kinds)
        return f"{self.name}_gradient{place}" if touched else None

    def hessian(self, place: int, other: int) -> str | None:
        """Name the variable for J'J of two DOFs, the later first; None if no row depends on both."""
        coupled = any(place in kind.columns and other in kind.columns for kind in self.kinds)
        return f"{self.name}_hessian{place}_{other}" if coupled else None


@dataclass(frozen=True)
class IslandProgram:
    """Expressions of one island."""

    graph: ExpressionGraph
    dofs: tuple[int, ...]  # active DOFs of the island, in order
    quaternions: tuple[int, ...]  # first of the three angular DOFs of each ball or floating joint
    # reduced half angles in the expressions: variable -> (variable of an angle, multiplier, offset)
    halves: dict[str, tuple[str, float, float]]
    inputs: tuple[DataInput, ...]  # data read per problem
    norm2: Expression  # |r|^2, r = rows - goals; infinite or NaN if a judged row is
    goal_norm2: Expression  # |r|^2 of the rows with goals
    levels: tuple[Level, ...]  # highest priority first
    # unscaled |r|^2 of (all higher-priority rows, the lowest-priority rows); empty if no level has a factor
    level_norms2: tuple[Expression, ...]
    multiplied: tuple[int, ...]  # rows of constraints with Lagrange multipliers, added as variables; see `multiplier`
    one_sided: dict[int, Expression]  # next Lagrange multiplier of each row of a limit; see `own_multiplier`
    gradient: tuple[Expression, ...]  # J'r, per DOF
    errors: tuple[TargetError, ...]  # errors of the pose targets
    row_error2: Expression | None  # largest square of (row / tolerance); None without tolerances
    has_other_rows: bool  # whether there are rows besides pose targets and constraints
    rows: tuple[Expression, ...]  # weighted rows, without goals, without loops
    residuals: tuple[Expression, ...]  # r: weighted rows minus goals
    jacobian: tuple[tuple[Expression, ...], ...]  # Jacobian of `residuals`, [rows][dofs]
    row_objective: tuple[int, ...]  # objective of each row
    row_independent: tuple[bool, ...]  # `RowGroup.independent` of each row
    loops: tuple[RowLoop, ...] = ()  # rows as loops; their variables are terms of |r|^2, J'r and J'J

    @cached_property
    def hessian(self) -> tuple[tuple[Expression, ...], ...]:
        """J'J, lower triangle, rows of 1, 2, ... entries; computed on first use."""
        n = range(len(self.dofs))
        return tuple(tuple(self._product(a, b) for b in range(a + 1)) for a in n)

    @cached_property
    def diagonal(self) -> tuple[Expression, ...]:
        """Diagonal of J'J, per DOF."""
        return tuple(self._product(a, a) for a in range(len(self.dofs)))

    def rows_of(self, levels: Iterable[Level]) -> list[int]:
        """List the rows of some levels."""
        own = {k for level in levels for k in level.objectives}
        return [r for r, k in enumerate(self.row_objective) if k in own]

    def norm2_of(self, rows: Iterable[int]) -> Expression:
        """Give |r|^2 of some rows."""
        return total((self.residuals[r] * self.residuals[r] for r in rows), self.graph.constant(0.0))

    def of_rows(self, rows: Sequence[int]) -> "IslandProgram":
        """Reduce the program to some rows, with all inputs and errors."""
        norm2, zero = self.norm2_of(rows), self.graph.constant(0.0)
        return replace(
            self,
            norm2=norm2,
            goal_norm2=norm2,
            level_norms2=(),
            gradient=tuple(
                total((self.jacobian[r][a] * self.residuals[r] for r in rows), zero) for a in range(len(self.dofs))
            ),
            rows=tuple(self.rows[r] for r in rows),
            residuals=tuple(self.residuals[r] for r in rows),
            jacobian=tuple(self.jacobian[r] for r in rows),
            row_objective=tuple(self.row_objective[r] for r in rows),
            row_independent=tuple(self.row_independent[r] for r in rows),
            loops=(),
        )

    def _product(self, a: int, b: int) -> Expression:
        """Multiply two columns of the Jacobian, the later first, loops included."""
        names = [name for loop in self.loops if (name := loop.hessian(a, b)) is not None]
        zero = self.graph.constant(0.0)
        return total((row[a] * row[b] for row in self.jacobian), total(map(self.graph.variable, names), zero))

    @property
    def coupled(self) -> list[tuple[int, int]]:
        """Pairs of DOFs, (later, earlier), whose entry of J'J is not identically zero."""
        pairs = ((k, m) for k in range(len(self.dofs)) for m in range(k))
        return [(self.dofs[k], self.dofs[m]) for k, m in pairs if not self.hessian[k][m].is_zero]


def multiplier(row: int) -> str:
    """Name the variable of a row's Lagrange multiplier."""
    return f"multiplier{row}"


def own_multiplier(row: int) -> str:
    """Name the variable of a row's current Lagrange multiplier, before the update."""
    return f"own_multiplier{row}"


def total(terms: Iterable[Scalar], zero: Expression) -> Expression:
    """Add terms to zero, in order."""
    found = zero
    for term in terms:
        found = found + term
    return found
