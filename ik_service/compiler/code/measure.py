"""Measures of a final configuration: errors of the targets, and the smallest singular value of the Jacobian.

a configuration in the state -> errors of the pose targets, Jacobian of some rows
-> J J' or J'J, the smaller matrix -> smallest eigenvalue: square of the smallest singular value of J
"""

from collections.abc import Collection, Mapping, Sequence

from ik_service.compiler.code.iteration import IterationSource
from ik_service.compiler.code.state import error_outputs
from ik_service.compiler.island_program import GOAL
from objectives.expression import Expression, reachable
from objectives.expression.rows import ROW_WEIGHTS

ROOT_STEPS = 8  # steps of Laguerre's method, which converges cubically
LAST = 1e-4  # a step below this share of the root is the last
BELOW = 1e-12  # start below zero by this share of the trace: below all eigenvalues in spite of rounding


class MeasureSource:
    """C++ of one measurement: errors, and the smallest singular value of some rows, at a configuration."""

    def __init__(self, iteration: IterationSource, rows: Sequence[int]) -> None:
        self._iteration, self._rows = iteration, tuple(rows)

    def text(self, configuration: int) -> str:
        """Write the body of `void measure(State& state, Packet& sigma)`, at a configuration's place in the state.

        Errors of the targets replace the errors in the state. sigma is the smallest singular value of the weighted
        rows, without rows of weight 0; infinity without rows.
        """
        iteration, state, lanes = self._iteration, self._iteration.state, self._iteration.lanes
        gram = self._gram()
        errors = {f"error{k}": node for k, (_, node) in enumerate(error_outputs(iteration.program))}
        outputs = errors | {f"gram{k}_{m}": node for k, row in enumerate(gram) for m, node in enumerate(row)}
        lines = self._evaluated(outputs, configuration)
        lines += [f"s[{state.errors + k}] = {name};" for k, name in enumerate(errors)]
        lines.append(f"F least = {lanes.everywhere('INFINITY')};")
        if gram:
            lines += self._least_eigenvalue(gram)
        return "\n".join(["", *lines, "*(U*)&sigma = least;", "}", ""])

    def goals_text(self, rows: Collection[int] | None = None) -> str:
        """Write the body of `void set_goals(State& state)`: values of rows become goals; None: `goal_rows`."""
        iteration, state = self._iteration, self._iteration.state
        program = iteration.program
        places = {one.column: state.inputs + k for k, one in enumerate(program.inputs) if one.field == GOAL}
        rows = iteration.goal_rows() if rows is None else rows
        places = {row: place for row, place in places.items() if row in rows}
        lines = self._evaluated({f"row{r}": program.rows[r] for r in places}, state.q)
        return "\n".join(["", *lines, *(f"s[{place}] = row{r};" for r, place in places.items()), "}", ""])

    def lines(self, outputs: Mapping[str, Expression], configuration: int) -> list[str]:
        """Write statements that evaluate named expressions at a configuration, given by its place in the state `s`."""
        iteration = self._iteration
        trial = [f"const F trial{c} = s[{configuration + k}];" for k, c in enumerate(iteration.coordinates)]
        return [*trial, *iteration.read_data(), *iteration.evaluate(outputs)]

    def _evaluated(self, outputs: Mapping[str, Expression], configuration: int) -> list[str]:
        header = ["{", *self._iteration.lanes.prologue(), "U* const s = (U*)&state;"]
        return [*header, *self.lines(outputs, configuration)]

    def _is_by_dofs(self) -> bool:
        """Return True if J'J is smaller than J J'."""
        return len(self._rows) > len(self._iteration.program.dofs)

    def _weights(self, k: int) -> list[str]:
        """Name the weights of all rows that contribute to diagonal entry k."""
        program = self._iteration.program
        rows = [r for r in self._rows if not program.jacobian[r][k].is_zero] if self._is_by_dofs() else [self._rows[k]]
        names = {node.name for r in rows for node in reachable([program.rows[r]])}
        return [one.name for one in program.inputs if one.field == ROW_WEIGHTS and one.name in names]

    def _gram(self) -> list[list[Expression]]:
        """Give the smaller of J J' and J'J, lower triangle."""
        program = self._iteration.program
        rows = [list(program.jacobian[r]) for r in self._rows]
        if self._is_by_dofs():
            rows = [list(column) for column in zip(*rows, strict=True)]
        zero = program.graph.constant(0.0)
        gram = []
        for k, row in enumerate(rows):
            gram.append([zero] * (k + 1))
            for m, other in enumerate(rows[: k + 1]):
                for a, b in zip(row, other, strict=True):
                    gram[k][m] = gram[k][m] + a * b
        return gram

    def _least_eigenvalue(self, gram: Sequence[Sequence[Expression]]) -> list[str]:
        """Write Laguerre's method from below on det(A - x I); all roots are real, so no step passes the smallest root.

        A zero row (weight 0, or no DOF moves it) gets the trace as diagonal entry, so it is not the smallest. Sweeps
        turn A - x I into its negative inverse; trace and squared norm are the sums of 1 / (root - x) and its square.
        """
        lanes, number, n = self._iteration.lanes, self._iteration.lanes.number, len(gram)
        zero, one, count = lanes.everywhere(number(0.0)), lanes.everywhere(number(1.0)), number(float(n))
        pairs = [(k, m) for k in range(n) for m in range(k + 1)]
        trace = " + ".join(f"gram{k}_{k}" for k in range(n))
        lines = [f"const F trace = {trace};", f"F root = trace * {number(-BELOW)};"]
        for k in range(n):
            weights = "0" if gram[k][k].is_zero else " + ".join(self._weights(k))
            is_on = f"{lanes.everywhere(weights)} > {number(0.0)}"
            lines.append(f"const F diagonal{k} = {lanes.choose(is_on, f'gram{k}_{k}', 'trace')};")
        lines.append(f"for (int turn = 0; turn < {ROOT_STEPS}; ++turn) {{")
        for k, m in pairs:
            lines.append(f"F a{k}_{m} = {f'diagonal{k} - root' if k == m else f'gram{k}_{m}'};")
        for k in range(n):
            column = {m: f"a{max(k, m)}_{min(k, m)}" for m in range(n) if m != k}
            lines.append(f"const F pivot{k} = {one} / a{k}_{k};")
            lines += [f"const F swept{k}_{m} = {name} * pivot{k};" for m, name in column.items()]
            for i, j in pairs:
                if k not in (i, j):
                    lines.append(f"a{i}_{j} = a{i}_{j} - swept{k}_{i} * {column[j]};")
            lines += [f"{name} = swept{k}_{m};" for m, name in column.items()]
            lines.append(f"a{k}_{k} = -pivot{k};")
        squares = " + ".join(f"{'' if k == m else '2 * '}a{k}_{m} * a{k}_{m}" for k, m in pairs)
        lines.append(f"const F sum = {' '.join(f'- a{k}_{k}' for k in range(n))};")
        lines.append(f"const F squares = {squares};")
        lines.append(f"const F spread = {number(n - 1.0)} * ({count} * squares - sum * sum);")
        lines.append(f"const F wide = {lanes.choose(f'spread > {number(0.0)}', 'spread', zero)};")
        lines.append(f"const F step = {count} / (sum + {lanes.sqrt('wide')});")
        sound = lanes.both(f"step > {number(0.0)}", f"step < trace * {number(2.0)}")
        lines.append(f"root = root + {lanes.choose(sound, 'step', zero)};")
        lines.append(f"if (!{lanes.any(lanes.both(sound, f'step > root * {number(LAST)}'))}) break;")
        lines.append("}")
        return [*lines, f"least = {lanes.sqrt(lanes.choose(f'root > {number(0.0)}', 'root', zero))};"]
