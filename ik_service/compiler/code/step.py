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
from ik_service.compiler.code.functions import statements
from ik_service.compiler.code.lanes import Lanes
from ik_service.compiler.code.state import COMPONENTS, NOT_EVALUATED, Damping, coordinate_names, error_outputs
from ik_service.compiler.half_angle import END, FLOAT32_ERROR, FLOAT64_ERROR, half_angle_sinc_cosine
from ik_service.compiler.island_program import IslandProgram, total
from objectives.expression import Expression, ExpressionGraph
from objectives.expression.frame_algebra import conjugate, dot, quaternion, quaternion_product

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


def rotation_step(lanes: Lanes, a: int, place: int, *, is_limited: bool, name: str = "step") -> list[str]:
    """Write statements that store the next unit quaternion exp(-step) trial at a place of the state.

    Steps are cut to half a turn. `a` is the rotation's first active DOF; `is_limited`: the rotation from the start has
    a largest angle.
    """
    graph, number = ExpressionGraph(), lanes.number
    limit = lanes.everywhere(number(END))
    lines = [
        f"const F square{a} = {number(0.25)} * "
        f"({name}{a} * {name}{a} + {name}{a + 1} * {name}{a + 1} + {name}{a + 2} * {name}{a + 2});",
        f"const F cut{a} = {lanes.choose(f'square{a} < {limit}', f'square{a}', limit)};",
        f"const F share{a} = cut{a} / (square{a} + {number(1e-30)});",
        f"const F shorter{a} = {number(-0.5)} * {lanes.sqrt(f'share{a}')};",
        f"const auto whole{a} = square{a} < {limit};",
    ]
    half = lanes.everywhere(number(-0.5))
    lines.append(f"const F length{a} = {lanes.choose(f'whole{a}', half, f'shorter{a}')};")
    error = FLOAT32_ERROR if lanes.precision == "float32" else FLOAT64_ERROR
    sinc, cosine = half_angle_sinc_cosine(graph.variable(f"cut{a}"), error)
    scaled = [sinc * graph.variable(f"length{a}") * graph.variable(f"{name}{a + k}") for k in range(3)]
    old = quaternion([graph.variable(f"trial{a}{component}") for component in COMPONENTS])
    product = quaternion_product(quaternion([*scaled, cosine]), old)
    length2 = product[0] * product[0] + product[1] * product[1] + product[2] * product[2] + product[3] * product[3]
    zero, names = graph.constant(0.0), dict[Expression, str]()
    outputs = [zero + value for value in (*product, length2)]
    block = statements(lanes, outputs, names)
    block.append(f"const F unit = {number(1.0)} / {lanes.sqrt(names[outputs[4]])};")
    block += [f"F turned{k} = {names[outputs[k]]} * unit;" for k in range(4)]
    if is_limited:
        block += ["{", *_not_too_far(lanes, a), "}"]
    block += [f"s[{place + k}] = turned{k};" for k in range(4)]
    return [*lines, "{", *block, "}"]


def _not_too_far(lanes: Lanes, a: int) -> list[str]:
    """Rotate a quaternion back to the largest angle from the start, about the same axis, if beyond."""
    graph, names = ExpressionGraph(), dict[Expression, str]()
    start = quaternion([graph.variable(f"turn{a}_{k}") for k in range(4)])
    turned = quaternion([graph.variable(f"turned{k}") for k in range(4)])
    turn = quaternion_product(turned, conjugate(start))
    sine2 = dot(turn[:3], turn[:3])
    there = [graph.constant(0.0) + value for value in (*turn, sine2)]
    lines = statements(lanes, there, names)
    most, square, number = f"turn{a}_4", names[there[4]], lanes.number
    lines.append(f"const auto over = {square} > {most} * {most};")
    lines.append(f"const F part = {most} / {lanes.sqrt(lanes.choose('over', square, lanes.everywhere(number(1.0))))};")
    lines.append(f"const F rest = {lanes.sqrt(f'({number(1.0)} - {most} * {most})')};")
    signed = lanes.choose(f"{names[there[3]]} < {number(0.0)}", "-rest", "rest")
    lines += [f"const F back{k} = {names[there[k]]} * part;" for k in range(3)]
    lines.append(f"const F back3 = {signed};")
    back = quaternion_product(quaternion([graph.variable(f"back{k}") for k in range(4)]), start)
    outputs = [graph.constant(0.0) + value for value in back]
    lines += statements(lanes, outputs, names)
    return lines + [f"turned{k} = {lanes.choose('over', names[node], f'turned{k}')};" for k, node in enumerate(outputs)]
