"""The step where some rows come first: they are much heavier than all others, and others give way to them.

    (J'J + damping) s = J'r by parts: that of the rows that come first is taken in full, that of the others is shortened
    as a whole where it leads a DOF to its limit -> the first rows stay met along it
    J'(r - J s) at the next trial: says which DOFs a limit holds there

J'r itself says that only where the first rows are met to the last digit: they curve, and are heavy. So it is predicted,
by the model in which rows are straight. At first every DOF at a limit is held; those that would come back are let go.
"""

from collections.abc import Mapping, Sequence

from ik_service.compiler.code.elimination import Elimination
from ik_service.compiler.code.lanes import Lanes
from ik_service.compiler.code.state import NOT_EVALUATED, Damping, coordinate_names
from ik_service.compiler.code.step import AT_LIMIT_SHARE, DofStep
from ik_service.compiler.island_program import IslandProgram
from objectives.expression import Expression


class FirstRowsStep(DofStep):
    """The step by factors of J'J + damping, `step{a}`, and the part of it that is to be taken, `taken{a}`."""

    def __init__(
        self,
        program: IslandProgram,  # arithmetic of the island
        lanes: Lanes,  # width and precision
        damping: Damping,
        elimination: Elimination,  # the factorisation that it needs
        first_rows: Sequence[int],  # the rows that come first
    ) -> None:
        super().__init__(program, lanes, damping, elimination)
        self._first = program.of_rows(first_rows)
        self._others = program.of_rows([row for row in range(len(program.rows)) if row not in first_rows])
        self._sliding = [a for a, component in coordinate_names(program) if not component]

    def lengths2(self) -> list[str]:
        """Names of the squared lengths of the columns of J, of the rows that do not come first."""
        return [f"length2_{a}" for a in self._program.dofs]

    def outputs(self) -> dict[str, Expression]:
        """Give J'J, the lengths of its columns, and J'r of the rows that come first."""
        dofs = self._program.dofs
        found = super().outputs() | dict(zip(self.lengths2(), self._others.diagonal, strict=True))
        return found | {f"first_gradient{a}": node for a, node in zip(dofs, self._first.gradient, strict=True)}

    def text(self) -> list[str]:
        """Statements that compute the step."""
        solve, dofs = self._elimination.solve, self._program.dofs
        lines = [*self._holds(), *self._factors()]
        lines += solve(lambda a: f"first_gradient{a}", "first")
        lines += solve(lambda a: f"(gradient{a} - first_gradient{a})", "other")
        return [*lines, *(f"const F step{a} = first{a} + other{a};" for a in dofs), *self._taken()]

    def pressures(self, trials: Mapping[int, str]) -> dict[int, str]:
        """Give statements for the predicted gradient, `pressure{a}` of the next iteration, by DOF."""
        # `trials` are texts of the coordinates of the next trial. A DOF that has come to its limit is pushed against it
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
        """Statements for `held`: whether a DOF is at a limit and stays there."""
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
        """Statements for `taken`: the step, with the part of the other rows no longer than leads a DOF to its limit.

        A DOF that is as good as there already does not count: its part of the step is cut.
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
