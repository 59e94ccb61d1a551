"""One Levenberg-Marquardt iteration of an island as a straight line of C++ over packets, without a branch.

    trial configuration -> rows, J'J, J'r of the program -> keep it where it is the best so far; raise the damping
    where it is no progress -> hold DOFs at a limit that the gradient pushes outwards -> factors of J'J + damping
    -> step from the trial, clamped into the limits: the next trial; whether any lane has finished

No step is taken back: a lane walks on from a trial that is worse, with more damping, and what it keeps is its best.
So it needs J'J of one configuration only, and valleys that curve are crossed rather than followed.

All that a lane remembers stands in one array of packets, the state, in the order that `LaneState` gives.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from ik_service.compiler.code.elimination import Elimination
from ik_service.compiler.code.lanes import Lanes, packet, statements
from ik_service.compiler.program.half_angle import END, FLOAT32_ERROR, FLOAT64_ERROR, half_angle_sinc_cosine
from ik_service.compiler.program.island_program import IslandProgram
from objectives.expression import Expression, ExpressionGraph
from objectives.frame_algebra import conjugate, dot, quaternion, quaternion_product

TURN = 6.283185307179586
COMPONENTS = "xyzw"


@dataclass(frozen=True)
class Damping:
    """How steps are damped: boost * (min(share |r|^2 + bend |g|, most h) + least h), h the largest entry of J'J.

    Attributes:
        share: Of |r|^2 (proportional to the error: Chan and Lawrence 1988).
        most: Of h: far targets are approached in long steps.
        least: Of h, in roundings of the lanes' precision; with less, rounding decides where DOFs to spare go.
        progress: Share by which a trial must lower the least |r|^2 so far to count as progress.
        up: Factor on the boost after a trial that is no progress.
        down: Factor on the boost after one that is; it does not fall under 1.
        boost_max: A lane this much damped that makes no progress will make none.
        bend: Of |g| [m], g those rows that may have goals: as large as their second derivatives, steps near
            singularities with residuals that stay do not swing to and fro.
        settles: Whether a lane has finished, too, when a trial differs from the best so far by less than `progress`, or
            when the next would: by the model, whose rows are straight, a step s lowers |r|^2 by no more than 2 s'J'r.
    """

    share: float
    most: float
    least: float
    progress: float
    up: float
    down: float
    boost_max: float
    bend: float = 0.0
    settles: bool = False


@dataclass(frozen=True)
class LaneState:
    """Where the numbers of a lane stand in its state: first places of the groups.

    What the iteration only reads, from the limits on, takes no places where it stands apart.

    Attributes:
        q: Best configuration so far: a number per active DOF, four for a rotation that has a quaternion.
        trial: Configuration to be evaluated next, alike.
        gradient: J'r at q, per DOF.
        diagonal: Diagonal of J'J at q, per DOF.
        errors: Squared errors of the targets at q.
        norm2: |r|^2 at q.
        boost: Factor on the damping.
        steps: Steps tried.
        hessian: J'J at q under its diagonal, where it is kept: an entry per coupled pair of DOFs.
        lower: Lower limits, per DOF.
        upper: Upper limits, per DOF.
        inputs: Data of the problem, as the program lists it.
        floor2: |r|^2 that ends the attempt.
        size: Number of places.
    """

    q: int
    trial: int
    gradient: int
    diagonal: int
    errors: int
    norm2: int
    boost: int
    steps: int
    hessian: int
    lower: int
    upper: int
    inputs: int
    floor2: int
    size: int

    @classmethod
    def of(cls, program: IslandProgram, *, data_apart: bool = False, with_hessian: bool = False) -> "LaneState":
        """Lay out the state of a program."""
        dofs, coordinates = len(program.dofs), len(coordinate_names(program))
        counts = [coordinates, coordinates, dofs, dofs, len(error_outputs(program)), 1, 1, 1]
        counts.append(len(program.coupled) if with_hessian else 0)
        counts += [0, 0, 0, 0] if data_apart else [dofs, dofs, len(program.inputs), 1]
        return cls(*(sum(counts[:k]) for k in range(len(fields(cls)))))


def coordinate_names(program: IslandProgram) -> tuple[tuple[int, str], ...]:
    """Active DOF and component ("" or one of xyzw) of every coordinate of the island, in the order of the state."""
    names: list[tuple[int, str]] = []
    inner = {a + k for a in program.quaternions for k in (1, 2)}
    for a in program.dofs:
        if a in program.quaternions:
            names += [(a, component) for component in COMPONENTS]
        elif a not in inner:
            names.append((a, ""))
    return tuple(names)


def error_outputs(program: IslandProgram) -> list[tuple[str, Expression]]:
    """Squared errors of the pose targets: "position" or "chord", and the expression."""
    found = []
    for error in program.errors:
        found += [("position", error.position2)] if error.position2 is not None else []
        found += [("chord", error.chord2)] if error.chord2 is not None else []
    return found


class IterationSource:
    """C++ of one iteration.

    Args:
        program: Arithmetic of the island.
        lanes: Width and precision.
        damping: Damping of the steps.
        data_columns: 0 where the state holds the data; else, at width 1, they stand in an array of their own,
            [lanes / data_columns, data, data_columns], so that neighbours read side by side and need no registers.
        with_hessian: Whether a lane keeps all of J'J.
    """

    def __init__(
        self,
        program: IslandProgram,
        lanes: Lanes,
        damping: Damping,
        data_columns: int = 0,
        *,
        with_hessian: bool = False,
    ) -> None:
        self.program, self.lanes, self.damping, self.data_columns = program, lanes, damping, data_columns
        self.with_hessian = with_hessian
        self.state = LaneState.of(program, data_apart=data_columns > 0, with_hessian=with_hessian)
        self.coordinates = [f"{a}{component}" for a, component in coordinate_names(program)]
        self.elimination = Elimination.of(program.dofs, program.coupled)
        self._quaternion_dofs = {a + k for a in program.quaternions for k in range(3)}

    def text(self) -> str:
        """Body of `bool iterate(State& state, Real iterations)`: one iteration of all lanes.

        Where data stand apart, of `bool iterate(State& state, Real iterations, array3d data, int lane)`.

        Returns whether any lane has finished: at its floor, with a hopeless boost, or out of iterations.
        """
        lines = ["{", *self.lanes.prologue(), "U* const s = (U*)&state;"]
        lines += [f"const F {name} = s[{place}];" for name, place in self._loaded().items()]
        lines += self.read_data()
        lines += [*self.evaluate(self._outputs()), *self._keep(), *self._factor(), *self._solve(), *self._propose()]
        return "\n".join(["", *lines, *self._finish(), "}", ""])

    def _number(self, value: float) -> str:
        return self.lanes.number(value)

    def _loaded(self) -> dict[str, int]:
        """Names of what the iteration reads and writes, and their places."""
        state = self.state
        names = {f"trial{c}": state.trial + k for k, c in enumerate(self.coordinates)}
        names |= {f"old_{name}": place for name, _, place in self._kept()}
        return names | {"old_boost": state.boost, "steps": state.steps}

    def _kept(self) -> list[tuple[str, str, int]]:
        """What a lane keeps of its best configuration: name, what it is called at the trial, and place."""
        state, dofs = self.state, self.program.dofs
        kept = [(f"q{c}", f"trial{c}", state.q + k) for k, c in enumerate(self.coordinates)]
        kept += [(f"gradient{a}", f"gradient{a}", state.gradient + k) for k, a in enumerate(dofs)]
        kept += [(f"diagonal{a}", f"hessian{a}_{a}", state.diagonal + k) for k, a in enumerate(dofs)]
        pairs = self.program.coupled if self.with_hessian else []
        kept += [(f"hessian{a}_{b}", f"hessian{a}_{b}", state.hessian + k) for k, (a, b) in enumerate(pairs)]
        errors = range(len(error_outputs(self.program)))
        return [*kept, *((f"error{k}", f"error{k}", state.errors + k) for k in errors), ("norm2", "norm2", state.norm2)]

    def data_names(self) -> list[str]:
        """Names of what the iteration only reads, in order: limits, inputs and floor."""
        limits = [f"{side}{a}" for side in ("lower", "upper") for a in self.program.dofs]
        return [*limits, *(one.name for one in self.program.inputs), "floor2"]

    def read_data(self) -> list[str]:
        """Statements that read what the iteration only reads."""
        names, columns = self.data_names(), self.data_columns
        if columns == 0:
            return [f"const F {name} = s[{self.state.lower + k}];" for k, name in enumerate(names)]
        first = f"const F* const d = &wp::index(data, lane / {columns}, 0, lane % {columns});"
        return [first, *(f"const F {name} = d[{k * columns}];" for k, name in enumerate(names))]

    def _outputs(self) -> dict[str, Expression]:
        """What the program computes at the trial, by the names that the rest of the iteration reads."""
        program = self.program
        outputs = {"norm2": program.norm2}
        if self.damping.bend > 0.0:
            outputs["goal_norm2"] = program.goal_norm2
        outputs |= {f"gradient{a}": node for a, node in zip(program.dofs, program.gradient, strict=True)}
        place = {a: k for k, a in enumerate(program.dofs)}
        entries = [*((a, a) for a in program.dofs), *program.coupled]
        outputs |= {f"hessian{a}_{b}": program.hessian[place[a]][place[b]] for a, b in entries}
        return outputs | {f"error{k}": node for k, (_, node) in enumerate(error_outputs(program))}

    def evaluate(self, outputs: Mapping[str, Expression]) -> list[str]:
        """Statements that compute expressions of the program at the trial, as packets of these names."""
        program, lanes, names = self.program, self.lanes, dict[Expression, str]()
        lines = []
        for half, (variable, multiplier, offset) in program.halves.items():
            angle = f"({variable} * {self._number(multiplier)} + {self._number(offset)})"
            if (multiplier, offset) == (1.0, 0.0):
                angle = variable
            turns = lanes.nearest(f"{angle} * {self._number(1.0 / TURN)}")
            lines.append(f"const F {half} = {self._number(0.5)} * ({angle} - {self._number(TURN)} * {turns});")
        lines += statements(lanes, list(outputs.values()), names)
        return lines + [f"const F {name} = {packet(lanes, node, names)};" for name, node in outputs.items()]

    def _keep(self) -> list[str]:
        """Keep the trial where it is the best so far, and relax the damping where it is progress, else raise it.

        NaN compares false, and so it is neither.
        """
        number, lanes, damping = self._number, self.lanes, self.damping
        lines = ["const auto better = norm2 < old_norm2;"]
        for name, at_trial, _ in self._kept():
            lines.append(f"const F best_{name} = {lanes.choose('better', at_trial, f'old_{name}')};")
        lines.append(f"const auto progress = norm2 < old_norm2 * {number(1.0 - damping.progress)};")
        lines.append(f"const F lowered = old_boost * {number(damping.down)};")
        relaxed = lanes.choose(f"lowered > {number(1.0)}", "lowered", lanes.everywhere(number(1.0)))
        raised = f"(old_boost * {number(damping.up)})"
        if damping.settles:
            near = f"norm2 < old_norm2 * {number(1.0 + damping.progress)}"
            raised = lanes.choose(near, lanes.everywhere(number(2.0 * damping.boost_max)), raised)
        return [*lines, f"const F boost = {lanes.choose('progress', relaxed, raised)};"]

    def _factor(self) -> list[str]:
        """Factors L D L' of J'J + damping I at the trial, column by column, but for what is always zero.

        Without the roots of a Cholesky factor, on which every following column would wait. A pivot below the damping is
        one that rounding has eaten: its step would be noise, and long. The column of a DOF at its bound is zero, and
        so is its step, exactly: moved off a limit of 0 by as little as rounding, it would not count as being on it.
        """
        dofs, lanes, number = self.program.dofs, self.lanes, self._number
        lines = [f"F largest = hessian{dofs[0]}_{dofs[0]};"]
        for a in dofs[1:]:
            lines.append(f"largest = {lanes.choose(f'hessian{a}_{a} > largest', f'hessian{a}_{a}', 'largest')};")
        bent = f" + {number(self.damping.bend)} * {lanes.sqrt('goal_norm2')}" if self.damping.bend > 0.0 else ""
        lines.append(f"const F shared = norm2 * {number(self.damping.share)}{bent};")
        lines.append(f"const F most = largest * {number(self.damping.most)};")
        share = lanes.choose("shared < most", "shared", "most")
        least = number(self.damping.least * lanes.rounding)
        lines.append(f"const F damping = boost * ({share} + largest * {least});")
        elimination, coupled, zero = self.elimination, set(self.program.coupled), lanes.everywhere(number(0.0))
        for a in elimination.order:
            products = "".join(f" - factor{a}_{b} * scaled{a}_{b}" for b in elimination.earlier[a])
            lines.append(f"const F pivot{a} = hessian{a}_{a} + damping{products};")
            sound = lanes.choose(f"pivot{a} > damping", f"pivot{a}", "damping")
            lines.append(f"const F free{a} = {number(1.0)} / {sound};")
            lines.append(f"const F inverse{a} = {self._unless_at_bound(a)};")
            for c in elimination.later[a]:
                shared = [b for b in elimination.earlier[a] if c in elimination.later[b]]
                products = "".join(f" - factor{c}_{b} * scaled{a}_{b}" for b in shared)
                pair = max(a, c), min(a, c)
                entry = f"hessian{pair[0]}_{pair[1]}" if pair in coupled else zero
                lines.append(f"const F scaled{c}_{a} = {entry}{products};")
                lines.append(f"const F factor{c}_{a} = scaled{c}_{a} * inverse{a};")
        return lines

    def _unless_at_bound(self, a: int) -> str:
        """Inverse of a pivot; 0 where the DOF is at a limit and its gradient pushes it outwards."""
        if a in self._quaternion_dofs:
            return f"free{a}"
        lanes, zero = self.lanes, self._number(0.0)
        low = lanes.both(f"trial{a} <= lower{a}", f"gradient{a} > {zero}")
        high = lanes.both(f"trial{a} >= upper{a}", f"gradient{a} < {zero}")
        return lanes.choose(lanes.either(low, high), lanes.everywhere(zero), f"free{a}")

    def _solve(self) -> list[str]:
        elimination, lines = self.elimination, list[str]()
        for a in elimination.order:
            products = "".join(f" - factor{a}_{b} * half_step{b}" for b in elimination.earlier[a])
            lines.append(f"const F half_step{a} = gradient{a}{products};")
        for a in reversed(elimination.order):
            products = "".join(f" - factor{c}_{a} * step{c}" for c in elimination.later[a])
            lines.append(f"const F step{a} = half_step{a} * inverse{a}{products};")
        return lines

    def _propose(self) -> list[str]:
        lines = []
        for k, (a, component) in enumerate(coordinate_names(self.program)):
            place = f"s[{self.state.trial + k}]"
            if not component:
                lines.append(f"const F moved{a} = trial{a} - step{a};")
                below = self.lanes.choose(f"moved{a} < lower{a}", f"lower{a}", f"moved{a}")
                lines.append(f"const F above{a} = {below};")
                lines.append(f"{place} = {self.lanes.choose(f'above{a} > upper{a}', f'upper{a}', f'above{a}')};")
            elif component == COMPONENTS[0]:
                lines += self._turn(a, self.state.trial + k)
        return lines

    def _turn(self, a: int, place: int) -> list[str]:
        """The next quaternion exp(-step) trial, of unit length; a step of more than half a turn is cut to that."""
        graph, lanes = ExpressionGraph(), self.lanes
        limit = lanes.everywhere(self._number(END))
        lines = [
            f"const F square{a} = {self._number(0.25)} * "
            f"(step{a} * step{a} + step{a + 1} * step{a + 1} + step{a + 2} * step{a + 2});",
            f"const F cut{a} = {lanes.choose(f'square{a} < {limit}', f'square{a}', limit)};",
            f"const F share{a} = cut{a} / (square{a} + {self._number(1e-30)});",
            f"const F shorter{a} = {self._number(-0.5)} * {lanes.sqrt(f'share{a}')};",
            f"const auto whole{a} = square{a} < {limit};",
        ]
        half = lanes.everywhere(self._number(-0.5))
        lines.append(f"const F length{a} = {lanes.choose(f'whole{a}', half, f'shorter{a}')};")
        error = FLOAT32_ERROR if lanes.precision == "float32" else FLOAT64_ERROR
        sinc, cosine = half_angle_sinc_cosine(graph.variable(f"cut{a}"), error)
        scaled = [sinc * graph.variable(f"length{a}") * graph.variable(f"step{a + k}") for k in range(3)]
        old = quaternion([graph.variable(f"trial{a}{component}") for component in COMPONENTS])
        product = quaternion_product(quaternion([*scaled, cosine]), old)
        length2 = product[0] * product[0] + product[1] * product[1] + product[2] * product[2] + product[3] * product[3]
        zero, names = graph.constant(0.0), dict[Expression, str]()
        outputs = [zero + value for value in (*product, length2)]
        block = statements(lanes, outputs, names)
        block.append(f"const F unit = {self._number(1.0)} / {lanes.sqrt(names[outputs[4]])};")
        block += [f"F turned{k} = {names[outputs[k]]} * unit;" for k in range(4)]
        if any(one.name == f"turn{a}_0" for one in self.program.inputs):
            block += ["{", *self._not_too_far(a), "}"]
        block += [f"s[{place + k}] = turned{k};" for k in range(4)]
        return [*lines, "{", *block, "}"]

    def _not_too_far(self, a: int) -> list[str]:
        """Turn a quaternion back towards where it starts, about the same axis, if it has turned further than it may."""
        graph, lanes, names = ExpressionGraph(), self.lanes, dict[Expression, str]()
        start = quaternion([graph.variable(f"turn{a}_{k}") for k in range(4)])
        turned = quaternion([graph.variable(f"turned{k}") for k in range(4)])
        turn = quaternion_product(turned, conjugate(start))
        sine2 = dot(turn[:3], turn[:3])
        there = [graph.constant(0.0) + value for value in (*turn, sine2)]
        lines = statements(lanes, there, names)
        most, square, number = f"turn{a}_4", names[there[4]], self._number
        lines.append(f"const auto over = {square} > {most} * {most};")
        lines.append(
            f"const F part = {most} / {lanes.sqrt(lanes.choose('over', square, lanes.everywhere(number(1.0))))};"
        )
        lines.append(f"const F rest = {lanes.sqrt(f'({number(1.0)} - {most} * {most})')};")
        signed = lanes.choose(f"{names[there[3]]} < {number(0.0)}", "-rest", "rest")
        lines += [f"const F back{k} = {names[there[k]]} * part;" for k in range(3)]
        lines.append(f"const F back3 = {signed};")
        back = quaternion_product(quaternion([graph.variable(f"back{k}") for k in range(4)]), start)
        outputs = [graph.constant(0.0) + value for value in back]
        lines += statements(lanes, outputs, names)
        return lines + [
            f"turned{k} = {lanes.choose('over', names[node], f'turned{k}')};" for k, node in enumerate(outputs)
        ]

    def _finish(self) -> list[str]:
        """Store what has changed, and tell whether any lane has finished."""
        state, number = self.state, self._number
        lines = [f"s[{place}] = best_{name};" for name, _, place in self._kept()]
        boost = "boost"
        if self.damping.settles:
            gain = " + ".join(f"step{a} * gradient{a}" for a in self.program.dofs)
            lines.append(f"const F gain = {number(2.0)} * ({gain});")
            rests = self.lanes.both("better", f"gain < norm2 * {number(self.damping.progress)}")
            boost = self.lanes.choose(rests, self.lanes.everywhere(number(2.0 * self.damping.boost_max)), "boost")
        lines.append(f"const F last_boost = {boost};")
        lines.append(f"s[{state.boost}] = last_boost;")
        lines.append(f"const F tried = steps + {number(1.0)};")
        lines.append(f"s[{state.steps}] = tried;")
        over = "(best_norm2 <= floor2)"
        for other in (f"last_boost > {number(self.damping.boost_max)}", "tried >= iterations"):
            over = self.lanes.either(over, other)
        return [*lines, f"return {self.lanes.any(over)};"]
