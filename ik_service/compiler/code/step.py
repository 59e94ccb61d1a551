"""Step from a trial configuration, in the space of the DOFs or of the rows.

    rows r, Jacobian J and damping at the trial; active set: DOFs at a limit with an outward gradient do not move
    space of the DOFs: (J'J + damping) s = J'r
    space of the rows: (J D^-1 J' + C) y = r - J D^-1 p,  s = D^-1 (p + J'y)

p and D are J'r and the diagonal of J'J + damping over the rows of one DOF; J and r are all other rows. Both spaces
solve the same damped normal equations. The floor of a diagonal entry is proportional to the entry: with a common floor,
light rows beside heavy rows would be lost. J'J mixes all rows in its entries and still loses the lightest rows;
J D^-1 J' does not. The sparsity of J decides which space has fewer operations.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from ik_service.compiler.code.elimination import Elimination
from ik_service.compiler.code.lanes import Lanes
from ik_service.compiler.code.state import NOT_EVALUATED, Damping, coordinate_names, error_outputs
from ik_service.compiler.island_program import IslandProgram
from objectives.expression import Expression

AT_LIMIT_SHARE = 1e-3  # a DOF nearer to a limit than this share of its range counts as at the limit


class StepSource(ABC):
    """C++ of the step of an island: `step{a}` for each DOF."""

    computed: tuple[str, ...] = ()  # names of `lengths2` computed by `text`; other names are outputs of the program

    def __init__(self, program: IslandProgram, lanes: Lanes, damping: Damping, elimination: Elimination) -> None:
        self._program, self._lanes, self._damping, self._elimination = program, lanes, damping, elimination
        self._number = lanes.number
        self._quaternion_dofs = {a + k for a in program.quaternions for k in range(3)}

    @abstractmethod
    def outputs(self) -> dict[str, Expression]:
        """Give the expressions at the trial that the step needs."""

    @abstractmethod
    def text(self) -> list[str]:
        """Write the statements of the step."""

    @abstractmethod
    def predicted_gradient(self) -> dict[int, str]:
        """Write J'(r - J s) by DOF: the gradient after the step, predicted by the linear model."""

    def lengths2(self) -> list[str]:
        """Name the squared lengths of the columns of J at the trial, per DOF, or one for all."""
        return [f"hessian{a}_{a}" for a in self._program.dofs]

    def _shared_damping(self, entries: Sequence[str]) -> list[str]:
        """Write the statements of `largest`, the largest diagonal entry, and `share`, the damping without floor."""
        lanes, number, damping = self._lanes, self._number, self._damping
        lines = [f"F largest = {entries[0]};"]
        for entry in entries[1:]:
            lines.append(f"largest = {lanes.choose(f'{entry} > largest', entry, 'largest')};")
        bent = f" + {number(damping.bend)} * {lanes.sqrt('goal_norm2')}" if damping.bend > 0.0 else ""
        norm2 = "norm2"
        if self._program.multiplied:  # in the first stage, lower-priority rows do not shorten steps
            norm2 = lanes.choose(f"stage < {number(1.0)}", norm2, f"error{len(error_outputs(self._program)) - 2}")
        lines.append(f"const F shared = {norm2} * {number(damping.share)}{bent};")
        lines.append(f"const F most = largest * {number(damping.most)};")
        return [*lines, f"const F share = {lanes.choose('shared < most', 'shared', 'most')};"]

    def _floor_of(self, smallest: float) -> list[str]:
        """Write the statements of `floor`, common to all entries, and `grade`, the share of each entry."""
        least = self._number(self._damping.least * self._lanes.rounding)
        if smallest == 1.0:
            return [f"const F floor = damping_factor * (share + largest * {least});"]
        lines = [f"const F grade = damping_factor * {least};"]
        return [*lines, f"const F floor = damping_factor * share + grade * (largest * {self._number(smallest)});"]

    def _damping_of(self, entry: str, smallest: float) -> str:
        """Write the damping of a diagonal entry, after `_floor_of`."""
        return "floor" if smallest == 1.0 else f"{entry} * grade + floor"

    def _unless_at_bound(self, a: int, text: str) -> str:
        """Write a number, or 0 if the DOF is at a limit with an outward gradient.

        With Lagrange multipliers the predicted gradient decides: heavy nonlinear rows make the sign of the gradient
        oscillate. The 0 is exact: after a rounding error the DOF would not count as at the limit.
        """
        if a in self._quaternion_dofs:
            return text
        lanes, zero = self._lanes, self._number(0.0)
        pull = "pressure" if self._program.multiplied else "gradient"
        low = lanes.both(f"trial{a} <= lower{a}", f"{pull}{a} > {zero}")
        high = lanes.both(f"trial{a} >= upper{a}", f"{pull}{a} < {zero}")
        return lanes.choose(lanes.either(low, high), lanes.everywhere(zero), text)


class DofStep(StepSource):
    """Step by factors of J'J + damping."""

    def outputs(self) -> dict[str, Expression]:
        """Give J'J without structural zeros."""
        program = self._program
        place = {a: k for k, a in enumerate(program.dofs)}
        entries = [*((a, a) for a in program.dofs), *program.coupled]
        return {f"hessian{a}_{b}": program.hessian[place[a]][place[b]] for a, b in entries}

    def text(self) -> list[str]:
        """Write the statements of the step."""
        return [*self._factors(), *self._elimination.solve(lambda a: f"gradient{a}", "step")]

    def _factors(self) -> list[str]:
        lanes, elimination, coupled = self._lanes, self._elimination, set(self._program.coupled)
        floors = [
            f"const F damping{a} = {self._damping_of(f'hessian{a}_{a}', self._damping.smallest)};"
            for a in self._program.dofs
        ]
        factors = elimination.factor(
            lanes,
            lambda a, b: f"hessian{a}_{b}" if a == b or (a, b) in coupled else None,
            lambda a: f"damping{a}",
            lambda a: self._unless_at_bound(a, f"free{a}"),
        )
        diagonal = [f"hessian{a}_{a}" for a in self._program.dofs]
        shared = [*self._shared_damping(diagonal), *self._floor_of(self._damping.smallest)]
        return [*shared, *floors, *factors]

    def predicted_gradient(self) -> dict[int, str]:
        """Write J'(r - J s) by DOF."""
        dofs, coupled, found = self._program.dofs, {*self._program.coupled}, dict[int, str]()
        for a in dofs:
            pairs = ((max(a, b), min(a, b), b) for b in dofs)
            products = [f" - hessian{c}_{d} * step{b}" for c, d, b in pairs if c == d or (c, d) in coupled]
            found[a] = f"(gradient{a}{''.join(products)})"
        return found


class FirstRowsStep(DofStep):
    """Step with first rows: rows of highest priority, much heavier than all other rows.

        (J'J + damping) s = J'r, split by rows: full step for the first rows, plus the step for the other rows, scaled
        down as a whole at the limit of a DOF -> the first rows stay met along the step `taken{a}`
        J'(r - J s), the gradient predicted for the next trial -> active set: DOFs held by limits there

    The gradient J'r itself is no guide, because first rows are heavy and nonlinear; so the linear model predicts the
    gradient. At first every DOF at a limit is held; then DOFs that move back inside are released.
    """

    def __init__(
        self,
        program: IslandProgram,
        lanes: Lanes,
        damping: Damping,
        elimination: Elimination,
        first_rows: Sequence[int],
    ) -> None:
        super().__init__(program, lanes, damping, elimination)
        self._first = program.of_rows(first_rows)
        self._others = program.of_rows([row for row in range(len(program.rows)) if row not in first_rows])
        self._sliding = [a for a, component in coordinate_names(program) if not component]

    def lengths2(self) -> list[str]:
        """Name the squared lengths of the columns of J, over the other rows."""
        return [f"length2_{a}" for a in self._program.dofs]

    def outputs(self) -> dict[str, Expression]:
        """Give J'J, squared lengths of columns of J, and J'r of the first rows."""
        dofs = self._program.dofs
        found = super().outputs() | dict(zip(self.lengths2(), self._others.diagonal, strict=True))
        return found | {f"first_gradient{a}": node for a, node in zip(dofs, self._first.gradient, strict=True)}

    def text(self) -> list[str]:
        """Write the statements of the step."""
        solve, dofs = self._elimination.solve, self._program.dofs
        lines = [*self._holds(), *self._factors()]
        lines += solve(lambda a: f"first_gradient{a}", "first")
        lines += solve(lambda a: f"(gradient{a} - first_gradient{a})", "other")
        return [*lines, *(f"const F step{a} = first{a} + other{a};" for a in dofs), *self._taken()]

    def pressures(self, trials: Mapping[int, str]) -> dict[int, str]:
        """Write the predicted gradient, `pressure{a}` of the next iteration, by DOF; `trials`: next coordinates.

        The pressure of a DOF that has arrived at a limit points outwards.
        """
        lanes, number, found = self._lanes, self._number, dict[int, str]()
        coupled = {*self._program.coupled, *((a, a) for a in self._program.dofs)}
        for a in self._program.dofs:
            pairs = ((max(a, b), min(a, b), b) for b in self._program.dofs)
            products = [f"hessian{c}_{d} * taken{b}" for c, d, b in pairs if (c, d) in coupled]
            found[a] = f"(gradient{a} - ({' + '.join(products)}))"
            if a in self._sliding:
                low = lanes.both(f"{trials[a]} - lower{a} <= near{a}", f"taken{a} > {number(0.0)}")
                high = lanes.both(f"upper{a} - {trials[a]} <= near{a}", f"taken{a} < {number(0.0)}")
                down, up = lanes.everywhere(number(1.0)), lanes.everywhere(number(-1.0))
                found[a] = lanes.choose(low, down, lanes.choose(high, up, found[a]))
        return found

    def _unless_at_bound(self, a: int, text: str) -> str:
        if a not in self._sliding:
            return text
        return self._lanes.choose(f"held{a}", self._lanes.everywhere(self._number(0.0)), text)

    def _holds(self) -> list[str]:
        """Write the statements of `held{a}`: whether a limit holds a DOF."""
        lanes, number = self._lanes, self._number
        lines = [f"const auto begins = old_norm2 >= {number(NOT_EVALUATED)};"]
        endless, nothing = lanes.everywhere("INFINITY"), lanes.everywhere(number(0.0))
        for a in self._sliding:
            share = f"(upper{a} - lower{a}) * {number(AT_LIMIT_SHARE)}"
            lines.append(f"const F near{a} = {lanes.choose(f'{share} < {endless}', share, nothing)};")
            down = lanes.either("begins", f"pressure{a} > {number(0.0)}")
            up = lanes.either("begins", f"pressure{a} < {number(0.0)}")
            low = lanes.both(f"trial{a} - lower{a} <= near{a}", down)
            high = lanes.both(f"upper{a} - trial{a} <= near{a}", up)
            lines.append(f"const auto held{a} = {lanes.either(low, high)};")
        return lines

    def _taken(self) -> list[str]:
        """Write the statements of `taken{a}`: the step, with the part of the other rows scaled at the first limit.

        A DOF within AT_LIMIT_SHARE of a limit does not shorten the step; the DOF's own part is clamped.
        """
        lanes, number = self._lanes, self._number
        lines = [f"F share_taken = {lanes.everywhere(number(1.0))};"]
        for a in self._sliding:
            lines.append(f"const F start{a} = trial{a} - first{a};")
            down = f"other{a} > {number(0.0)}"
            lines.append(f"const F room{a} = {lanes.choose(down, f'start{a} - lower{a}', f'upper{a} - start{a}')};")
            lines.append(f"const F distance{a} = {lanes.choose(down, f'other{a}', f'-other{a}')};")
            first = lanes.both(f"room{a} > near{a}", f"distance{a} * share_taken > room{a}")
            lines.append(f"share_taken = {lanes.choose(first, f'room{a} / distance{a}', 'share_taken')};")
        return lines + [f"const F taken{a} = first{a} + share_taken * other{a};" for a in self._program.dofs]
