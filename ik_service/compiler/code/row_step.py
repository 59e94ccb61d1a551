"""Step in the space of the rows."""

from ik_service.compiler.code.elimination import Elimination
from ik_service.compiler.code.lanes import Lanes
from ik_service.compiler.code.state import Damping
from ik_service.compiler.code.step import StepSource
from ik_service.compiler.island_program import IslandProgram, total
from objectives.expression import Expression

SMALLEST_ROW = 1e-8  # `Damping.smallest` for rows: keeps rows of small weight
NO_ROW = 1e-30  # a diagonal entry of J J' that counts as zero
COMPLIANT_SHARE = 0.1  # roundings of its diagonal entry added to a row's compliance of 1; more would shorten steps


class RowStep(StepSource):
    """Step by factors of J D^-1 J' + C, over the rows that depend on several DOFs.

    If all rows depend on several DOFs, D is the damping, and the equations are multiplied by the damping:
    (J J' + damping) y = r, s = J'y.
    """

    def __init__(self, program: IslandProgram, lanes: Lanes, damping: Damping, elimination: Elimination) -> None:
        super().__init__(program, lanes, damping, elimination)
        places = range(len(program.dofs))
        self._columns = {r: [k for k in places if not row[k].is_zero] for r, row in enumerate(program.jacobian)}
        self._rows = sorted(elimination.order)
        alone = [(r, columns[0]) for r, columns in self._columns.items() if len(columns) == 1]
        self._alone = {k: [r for r, column in alone if column == k] for _, k in alone}
        self.computed = () if self._alone else ("largest",)

    def lengths2(self) -> list[str]:
        """Name the squared lengths of the columns of J; or only the largest of the rows if that is enough."""
        return list(self.computed) or super().lengths2()

    def outputs(self) -> dict[str, Expression]:
        """Give the Jacobian, the diagonal of J'J, and the terms of J'J and J'r by rows of one DOF."""
        program, zero = self._program, self._program.graph.constant(0.0)
        dofs, jacobian, residuals = program.dofs, program.jacobian, program.residuals
        found = {f"row{r}": residuals[r] for r in self._rows}
        found |= {f"jacobian{r}_{dofs[k]}": jacobian[r][k] for r in self._rows for k in self._columns[r]}
        if self._alone:
            found |= {f"hessian{a}_{a}": node for a, node in zip(dofs, program.diagonal, strict=True)}
        for k, rows in self._alone.items():
            found[f"own{dofs[k]}"] = total((jacobian[r][k] * jacobian[r][k] for r in rows), zero)
            found[f"pull{dofs[k]}"] = total((jacobian[r][k] * residuals[r] for r in rows), zero)
        return found

    def text(self) -> list[str]:
        """Write the statements of the step."""
        columns = self._columns
        if self._alone:
            lines = [*self._shared_damping(self.lengths2()), *self._inverses(), *self._products()]
        else:
            none = self._lanes.everywhere(self._number(NO_ROW))  # keeps 1 / damping finite without free DOFs
            lines = [*self._products(), *self._shared_damping([none, *(f"gram{r}_{r}" for r in self._rows)])]
        lines += [] if self._alone else self._floor_of(SMALLEST_ROW)
        lines += [f"const F floor_row{r} = {self._floor(r)};" for r in self._rows]
        lines += self._elimination.factor(
            self._lanes,
            lambda r, s: f"gram{r}_{s}" if set(columns[r]) & set(columns[s]) else None,
            lambda r: f"floor_row{r}",
            lambda r: f"free_row{r}",
            "_row",
        )
        return lines + self._elimination.solve(self._right, "force", "_row") + self._steps()

    def _inverses(self) -> list[str]:
        lines = [f"const F damping = damping_factor * (share + largest * {self._number(SMALLEST_ROW)});"]
        for k, a in enumerate(self._program.dofs):
            own = f"own{a} + damping" if k in self._alone else "damping"
            lines.append(f"const F free{a} = {self._number(1.0)} / ({own});")
            lines.append(f"const F inverse{a} = {self._unless_at_bound(a, f'free{a}')};")
        return lines

    def _products(self) -> list[str]:
        dofs, columns, lines = self._program.dofs, self._columns, list[str]()
        one = "jacobian" if self._alone else "moved"  # without D, moved * moved = jacobian * moved: J is not needed
        for r in self._rows:
            for k in columns[r]:
                entry = f"jacobian{r}_{dofs[k]}"
                scaled = f"{entry} * inverse{dofs[k]}" if self._alone else self._unless_at_bound(dofs[k], entry)
                lines.append(f"const F moved{r}_{dofs[k]} = {scaled};")
            for s in self._rows[: self._rows.index(r) + 1]:
                common = [dofs[k] for k in columns[r] if k in columns[s]]
                products = " + ".join(f"{one}{r}_{a} * moved{s}_{a}" for a in common)
                lines += [f"const F gram{r}_{s} = {products};"] if common else []
        return lines

    def _floor(self, r: int) -> str:
        """Write the term added to a row's diagonal entry: compliance 1 or damping, and a share of the entry."""
        if self._alone:
            share = self._number(COMPLIANT_SHARE * self._lanes.rounding)
            return f"{self._number(1.0)} + damping_factor * (gram{r}_{r} * {share})"
        return self._damping_of(f"gram{r}_{r}", SMALLEST_ROW)

    def _right(self, r: int) -> str:
        """Write a row's right-hand side, reduced by the rows of one DOF."""
        pulled = [self._program.dofs[k] for k in self._columns[r] if k in self._alone]
        return f"row{r}" + "".join(f" - moved{r}_{a} * pull{a}" for a in pulled)

    def predicted_gradient(self) -> dict[int, str]:
        """Write J'(r - J s) by DOF; r - J s = compliance * force for each row."""
        found = {}
        for k, a in enumerate(self._program.dofs):
            parts = [f"jacobian{r}_{a} * (floor_row{r} * force{r})" for r in self._rows if k in self._columns[r]]
            parts += [f"(pull{a} - own{a} * step{a})"] if k in self._alone else []
            found[a] = " + ".join(parts) or self._lanes.everywhere(self._number(0.0))
        return found

    def _steps(self) -> list[str]:
        lines = []
        for k, a in enumerate(self._program.dofs):
            parts = [f"moved{r}_{a} * force{r}" for r in self._rows if k in self._columns[r]]
            parts += [f"inverse{a} * pull{a}"] if k in self._alone else []
            lines.append(f"const F step{a} = {' + '.join(parts) or self._lanes.everywhere(self._number(0.0))};")
        return lines
