"""Step with first rows: rows of highest priority, much heavier than all other rows.

    (J'J + damping) s = J'r, split by rows: full step for the first rows, plus the step for the other rows, scaled down
    as a whole at the limit of a DOF -> the first rows stay met along the step
    J'(r - J s), the gradient predicted for the next trial -> active set: DOFs held by limits there

The gradient J'r itself is no guide, because first rows are heavy and nonlinear; so the linear model predicts the
gradient. At first every DOF at a limit is held; then DOFs that move back inside are released.
"""

from collections.abc import Mapping, Sequence

from ik_service.compiler.code.elimination import Elimination
from ik_service.compiler.code.lanes import Lanes
from ik_service.compiler.code.state import NOT_EVALUATED, Damping, coordinate_names
from ik_service.compiler.code.step import AT_LIMIT_SHARE, DofStep
from ik_service.compiler.island_program import IslandProgram
from objectives.expression import Expression


class FirstRowsStep(DofStep):
    """Step by factors of J'J + damping, `step{a}`, and the part of the step to take, `taken{a}`."""

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
