"""One Levenberg-Marquardt iteration of an island as branch-free C++ over SIMD packets.

    trial configuration -> rows, J'J, J'r -> keep the trial if best so far; raise the damping without progress
    -> active set: hold DOFs at a limit with an outward gradient -> factors of J'J + damping
    -> step from the trial, clamped into the limits: the next trial; mask of finished lanes

No step is taken back: after a worse trial a lane goes on from the trial, with more damping, and keeps the best
configuration. So J'J is needed at one configuration only, and steps cross curved valleys instead of following them.

The memory of a lane is one array of packets, the state, with the layout `LaneState`.
"""

import math
from collections.abc import Mapping, MutableMapping, Sequence
from functools import partial

from ik_service.compiler.code.elimination import StepSpace
from ik_service.compiler.code.functions import packet, statements
from ik_service.compiler.code.lanes import Lanes
from ik_service.compiler.code.loops import loop_lines
from ik_service.compiler.code.state import (
    COMPONENTS,
    NOT_EVALUATED,
    REST_GAIN,
    SECONDARY_STAGE,
    YIELDING_FLOOR2,
    Damping,
    LaneState,
    StageTexts,
    coordinate_names,
    error_outputs,
    error_places,
    iterations_texts,
    multiplier_lines,
    own_multiplier_lines,
    plain,
)
from ik_service.compiler.code.step import AT_LIMIT_SHARE, DofStep, FirstRowsStep, RowStep, StepSource, rotation_step
from ik_service.compiler.island_program import FACTORS, GOAL, IslandProgram, Level, multiplier
from objectives.expression import Expression, reachable

FULL_TURN = 6.283185307179586
BACK = 64.0  # damping factor at which a lane with lower-priority rows returns from worse trials to its best
MET2 = 1e-10  # |r|^2 of lower-priority rows at which an attempt ends once higher-priority rows are met
SHORT = 0.98  # share of the way to a limit taken by a step that would pass the limit; the rest is for later steps


class IterationSource:
    """C++ of one iteration."""

    def __init__(
        self,
        program: IslandProgram,
        lanes: Lanes,
        damping: Damping,
        # 0: data in the state; else, at width 1, data in their own array [lanes / data_columns, data, data_columns]:
        # neighbouring lanes read contiguous memory, and data need no registers
        data_columns: int = 0,
        *,
        with_hessian: bool = False,  # whether a lane keeps all of J'J
        in_dofs: bool = False,  # whether steps are solved in the space of DOFs: a lane keeps lengths of columns of J
        entries_max: float = math.inf,  # room for entries of the step; exceeded if no space has fewer
        # rows met at the start, to be kept: the damping has their second derivatives (`bend`), and a step beyond a
        # limit is shortened as a whole, instead of clamping one DOF
        kept_rows: Sequence[int] = (),
        first_rows: Sequence[int] = (),  # rows much heavier than all others, in the space of DOFs; see `FirstRowsStep`
        state: LaneState | None = None,  # layout of another iteration's state; None for a layout of its own
        padded: bool = False,  # whether several kinds of targets share the layout of the state; see `LaneState.of`
    ) -> None:
        self.program, self.lanes, self.damping, self.data_columns = program, lanes, damping, data_columns
        self._number = lanes.number
        self.with_hessian, self.kept_rows, self.first_rows = with_hessian, kept_rows, first_rows
        self.coordinates = [f"{a}{component}" for a, component in coordinate_names(program)]
        self.space = StepSpace.of_program(program, in_dofs=with_hessian or in_dofs, most=entries_max)
        of_step = (program, lanes, damping, self.space.elimination)
        self.step: StepSource = RowStep(*of_step) if self.space.in_rows else DofStep(*of_step)
        if first_rows:
            self.step = FirstRowsStep(*of_step, first_rows)
        self._turns_downhill = damping.settles and not (state or kept_rows or first_rows or program.quaternions)
        kept = {"with_hessian": with_hessian, "with_pressure": bool(first_rows or program.multiplied)}
        kept["padded"], self.padded = padded, padded
        self.state = state or LaneState.of(program, len(self.step.lengths2()), data_columns > 0, **kept)

    def of_level(self, level: Level) -> "IterationSource":
        """Make the iteration of one level of a tick, on the state of this iteration of all rows.

        Constraints are solved alone. A later level keeps the rows with goals of all earlier levels.
        """
        program, kept = self.program, list[int]()
        if level.is_closing:
            program = program.of_rows(self.first_rows)
        else:
            earlier = program.rows_of(program.levels[: program.levels.index(level)])
            kept = [row for row in self._with_goals() if row in earlier]
        return IterationSource(program, self.lanes, self.damping, in_dofs=True, kept_rows=kept, state=self.state)

    def goal_rows(self) -> list[int]:
        """List the rows with goals, without first rows."""
        return [row for row in self._with_goals() if row not in self.first_rows]

    def _with_goals(self) -> list[int]:
        return [one.column for one in self.program.inputs if one.field == GOAL]

    def text(self) -> str:
        """Write the body of `int iterate(State& state, Real iterations)`: one iteration of all lanes.

        With data in their own array: `int iterate(State& state, Real iterations, array3d data, int lane)`. The C++
        function returns a bit mask of finished lanes: at the floor, with hopeless damping, or out of iterations.
        """
        lines = ["{", *self.lanes.prologue(), "U* const s = (U*)&state;"]
        lines += [f"const F {name} = s[{place}];" for name, place in self._loaded().items()]
        lines += self.read_data()
        names = dict[Expression, str]()
        if self.program.multiplied:
            lines += own_multiplier_lines(self.program, self.state)
            rows = {plain(r): self.program.one_sided.get(r, self.program.rows[r]) for r in self.program.multiplied}
            lines += [*self.evaluate(rows, names), *multiplier_lines(self.program, self.lanes, self.state)]
        lines += [*self.evaluate(self._outputs(), names), *self._keep(), *self.step.text(), *self._propose()]
        return "\n".join(["", *lines, *self._finish(), "}", ""])

    def _loaded(self) -> dict[str, int]:
        """Map names of numbers read and written to their places."""
        state = self.state
        names = {f"trial{c}": state.trial + k for k, c in enumerate(self.coordinates)}
        names |= {f"old_{name}": place for name, _, place in self._kept()}
        names |= {"stage": state.stage} if self.program.level_norms2 else {}
        if isinstance(self.step, FirstRowsStep) or self.program.multiplied:
            names |= {f"pressure{a}": state.pressure + k for k, a in enumerate(self.program.dofs)}
        return names | {"old_factor": state.damping_factor, "steps": state.steps}

    def _kept(self) -> list[tuple[str, str, int]]:
        """List numbers of the best configuration: name, name at the trial, and place."""
        state, dofs = self.state, self.program.dofs
        kept = [(f"q{c}", f"trial{c}", state.q + k) for k, c in enumerate(self.coordinates)]
        kept += [(f"gradient{a}", f"gradient{a}", state.gradient + k) for k, a in enumerate(dofs)]
        kept += [(f"length2_{k}", name, state.lengths2 + k) for k, name in enumerate(self.step.lengths2())]
        pairs = self.program.coupled if self.with_hessian else []
        kept += [(f"hessian{a}_{b}", f"hessian{a}_{b}", state.hessian + k) for k, (a, b) in enumerate(pairs)]
        errors = enumerate(error_places(self.program, padded=self.padded))
        kept += [(f"error{k}", f"error{k}", state.errors + place) for k, place in errors]
        return [*kept, ("norm2", "norm2", state.norm2)]

    def data_names(self) -> list[str]:
        """List names of read-only numbers, in order: limits, inputs and floor."""
        limits = [f"{side}{a}" for side in ("lower", "upper") for a in self.program.dofs]
        return [*limits, *(one.name for one in self.program.inputs), "floor2"]

    def read_data(self) -> list[str]:
        """Write the statements that load read-only numbers."""
        names, columns = self.data_names(), self.data_columns
        looped = {one.name for loop in self.program.loops for one in loop.inputs}
        staged, levels = dict.fromkeys(FACTORS, " * stage"), self.program.levels
        if len(levels) > 2:  # the rows of the last level become light first
            light, heavy = (self._number(factor) for factor in (SECONDARY_STAGE[self.lanes.precision], 1.0))
            later = self.lanes.choose(f"stage < {light}", *map(self.lanes.everywhere, (light, heavy)))
            staged[levels[1].factor] = f" * ({later})"
        read = [
            f"const F {name} = {self._datum(k)}{staged.get(name, '')};"
            for k, name in enumerate(names)
            if name not in looped
        ]
        if columns == 0:
            return read
        return [f"const F* const d = &wp::index(data, lane / {columns}, 0, lane % {columns});", *read]

    def _datum(self, k: int, further: str = "") -> str:
        """Write read-only number k, or the number `further` places on."""
        if self.data_columns == 0:
            is_floor = k == len(self.data_names()) - 1
            place = self.state.floor2 if is_floor else self.state.lower + k
            return f"s[{place}{further and f' + {further}'}]"
        return f"d[{k * self.data_columns}{further and f' + ({further}) * {self.data_columns}'}]"

    def _outputs(self) -> dict[str, Expression]:
        """Give the expressions at the trial, by name in the rest of the iteration."""
        program = self.program
        outputs = {"norm2": program.norm2}
        if self.damping.bend > 0.0:
            outputs["goal_norm2"] = program.goal_norm2
            if self.kept_rows or self.first_rows:
                outputs["goal_norm2"] = program.norm2_of(self.kept_rows or self.goal_rows())
        outputs |= {f"gradient{a}": node for a, node in zip(program.dofs, program.gradient, strict=True)}
        outputs |= self.step.outputs()
        return outputs | {f"error{k}": node for k, (_, node) in enumerate(error_outputs(program))}

    def evaluate(
        self, outputs: Mapping[str, Expression], names: MutableMapping[Expression, str] | None = None
    ) -> list[str]:
        """Write statements that evaluate named expressions at the trial.

        `names` has the packets of expressions evaluated before at the same trial; new packets are added.
        """
        lanes, halves = self.lanes, {} if names else self.program.halves
        names = dict[Expression, str]() if names is None else names
        lines = []
        for half, (variable, factor, offset) in halves.items():
            angle = f"({variable} * {self._number(factor)} + {self._number(offset)})"
            if (factor, offset) == (1.0, 0.0):
                angle = variable
            turns = lanes.nearest(f"{angle} * {self._number(1.0 / FULL_TURN)}")
            lines.append(f"const F {half} = {self._number(0.5)} * ({angle} - {self._number(FULL_TURN)} * {turns});")
        lines += self._loops(outputs, names)
        lines += statements(lanes, list(outputs.values()), names)
        return lines + [f"const F {name} = {packet(lanes, node, names)};" for name, node in outputs.items()]

    def _loops(self, outputs: Mapping[str, Expression], names: MutableMapping[Expression, str]) -> list[str]:
        """Write the statements of the loops that the outputs need; inputs of loops are the program's last inputs."""
        lines, program = list[str](), self.program
        needed = {node.name for node in reachable(outputs.values())} if program.loops else set()
        first = 2 * len(program.dofs) + len(program.inputs) - sum(len(loop.inputs) for loop in program.loops)
        for loop in program.loops:
            if any(name.startswith(f"{loop.name}_") for name in needed):
                lines += statements(self.lanes, [x for one in (*loop.frames, *loop.twists) for x in one], names)
                lines += loop_lines(self.lanes, loop, len(program.dofs), names, partial(self._datum, first))
            first += len(loop.inputs)
        return lines

    def _keep(self) -> list[str]:
        """Write statements: keep the trial if best so far; lower the damping after progress, else raise it.

        NaN compares false: neither best nor progress.
        """
        number, lanes, damping = self._number, self.lanes, self.damping
        lines = ["const auto better = norm2 < old_norm2;"]
        lines += [
            self._best(name, at_trial) for name, at_trial, _ in self._kept() if at_trial not in self.step.computed
        ]
        lines.append(f"const auto progress = norm2 < old_norm2 * {number(1.0 - damping.progress)};")
        lines.append(f"const F lowered = old_factor * {number(damping.down)};")
        relaxed = lanes.choose(f"lowered > {number(1.0)}", "lowered", lanes.everywhere(number(1.0)))
        raised = f"(old_factor * {number(damping.up)})"
        if damping.settles:
            near = f"norm2 < old_norm2 * {number(1.0 + damping.progress)}"
            raised = lanes.choose(near, lanes.everywhere(number(2.0 * damping.factor_max)), raised)
        return [*lines, f"const F damping_factor = {lanes.choose('progress', relaxed, raised)};"]

    def _best(self, name: str, at_trial: str) -> str:
        return f"const F best_{name} = {self.lanes.choose('better', at_trial, f'old_{name}')};"

    def _propose(self) -> list[str]:
        lines, step = (self._shortened(), "taken") if self.kept_rows else (list[str](), "step")
        first = self.step if isinstance(self.step, FirstRowsStep) else None
        step = step if first is None else "taken"
        # Clamping a DOF at a limit can make all trials worse than the start, although the start is no minimum. The
        # fourth trial is a gradient descent step from the start, which lowers the cost.
        lost = self.lanes.both(f"damping_factor >= {self._number(self.damping.up**3)}", f"steps < {self._number(3.0)}")
        downhill = f"{self._number(1.0 / len(self.program.dofs))} / largest"
        trials: dict[int, str] = {}
        for k, (a, component) in enumerate(coordinate_names(self.program)):
            place = f"s[{self.state.trial + k}]"
            if not component:
                moved = f"trial{a} - {step}{a}"
                if self._turns_downhill:
                    moved = self.lanes.choose(lost, f"(best_q{a} - best_gradient{a} * {downhill})", moved)
                lines.append(f"const F moved{a} = {moved};")
                below = self.lanes.choose(f"moved{a} < lower{a}", f"lower{a}", f"moved{a}")
                lines.append(f"const F above{a} = {below};")
                lines.append(f"{place} = {self.lanes.choose(f'above{a} > upper{a}', f'upper{a}', f'above{a}')};")
                trials[a] = place
            elif component == COMPONENTS[0]:
                is_limited = any(one.name == f"turn{a}_0" for one in self.program.inputs)
                lines += rotation_step(self.lanes, a, self.state.trial + k, is_limited=is_limited, name=step)
        if first is not None:
            pressures = first.pressures(trials)
            lines += [f"s[{self.state.pressure + k}] = {pressures[a]};" for k, a in enumerate(self.program.dofs)]
        return lines

    def _shortened(self) -> list[str]:
        """Write the statements of `taken{a}`: the step, scaled down at the first limit of a DOF.

        A DOF within AT_LIMIT_SHARE of a limit does not shorten the step; the DOF's own part is clamped.
        """
        number, lanes = self._number, self.lanes
        lines = [f"F taking = {lanes.everywhere(number(1.0))};"]
        for a, component in coordinate_names(self.program):
            if component:
                continue
            down = f"step{a} > {number(0.0)}"
            lines.append(f"const F room{a} = {lanes.choose(down, f'trial{a} - lower{a}', f'upper{a} - trial{a}')};")
            lines.append(f"const F distance{a} = {lanes.choose(down, f'step{a}', f'-step{a}')};")
            near = f"room{a} > (upper{a} - lower{a}) * {number(AT_LIMIT_SHARE)}"
            first = lanes.both(near, f"distance{a} * taking > room{a}")
            lines.append(f"taking = {lanes.choose(first, f'room{a} / distance{a}', 'taking')};")
        lines.append(
            f"const F taken = {lanes.choose(f'taking < {number(1.0)}', f'taking * {number(SHORT)}', 'taking')};"
        )
        return lines + [f"const F taken{a} = taken * step{a};" for a in self.program.dofs]

    def _pressures(self) -> list[str]:
        """Write statements that store the gradient predicted after the step, per DOF.

        The predicted gradient of a free DOF is only rounding; for a step beyond a limit the step gives the sign.
        """
        lanes, lines, pushes = self.lanes, list[str](), self.step.predicted_gradient()
        scalar = [a for a, component in coordinate_names(self.program) if not component]
        for k, a in enumerate(self.program.dofs):
            push = pushes[a]
            if a in scalar:
                beyond = lanes.either(f"moved{a} < lower{a}", f"moved{a} > upper{a}")
                push = lanes.choose(beyond, f"step{a}", push)
            lines.append(f"s[{self.state.pressure + k}] = {push};")
        return lines

    def _finish(self) -> list[str]:
        """Write statements that store the new state and return the mask of finished lanes."""
        state, number = self.state, self._number
        lines = [self._best(name, at_trial) for name, at_trial, _ in self._kept() if at_trial in self.step.computed]
        lines += [f"s[{place}] = best_{name};" for name, _, place in self._kept()]
        if self.program.multiplied:
            lines += [f"s[{state.multipliers + k}] = {multiplier(r)};" for k, r in enumerate(self.program.multiplied)]
            lines += self._pressures()
        factor = "damping_factor"
        if self.damping.settles:
            gain = " + ".join(f"step{a} * gradient{a}" for a in self.program.dofs)
            lines.append(f"const F gain = {number(2.0)} * ({gain});")
            rests = self.lanes.both("better", f"gain < norm2 * {number(self.damping.progress)}")
            hopeless = self.lanes.everywhere(number(2.0 * self.damping.factor_max))
            factor = self.lanes.choose(rests, hopeless, factor)
        lines.append(f"const F tried = steps + {number(1.0)};")
        lines.append(f"s[{state.steps}] = tried;")
        if self.program.level_norms2:
            texts = StageTexts.of(self.program, self.lanes)
            given = self.program, self.lanes, self._target_error(), texts.goes_on
            for name, text in zip(("allowed", "longest"), iterations_texts(*given), strict=True):
                lines.append(f"const F {name} = {text};")
            factor = self._next_stage(lines, factor)
        lines += self._go_back()
        lines.append(f"const F last_factor = {factor};")
        lines.append(f"s[{state.damping_factor}] = last_factor;")
        over = self._at_floor()
        most = "longest" if self.program.level_norms2 else "iterations"
        for other in (f"last_factor > {number(self.damping.factor_max)}", f"tried >= {most}"):
            over = self.lanes.either(over, other)
        return [*lines, f"return {self.lanes.bits(over)};"]

    def _target_error(self) -> str:
        """Name |r|^2 of higher-priority rows at the best configuration."""
        return f"best_error{len(error_outputs(self.program)) - 2}"

    def _at_floor(self) -> str:
        """Write the condition of converged rows; light lower-priority rows have a floor of their own."""
        program, lanes = self.program, self.lanes
        if not program.level_norms2 or program.multiplied:
            return "(best_norm2 <= floor2)"
        scale = program.levels[-1].factor
        light = f"best_error{len(error_outputs(program)) - 1} * {scale} * {scale}"
        floor = f"floor2 * stage * stage * {self._number(YIELDING_FLOOR2)}"
        return lanes.both(f"{self._target_error()} <= floor2", f"{light} <= {floor}")

    def _go_back(self) -> list[str]:
        """Write statements that restart a lane at its best: for the next stage, and after worse trials.

        Near a solution, steps along nonlinear targets lose the targets; restarting at the best avoids a way back.
        """
        program, lanes = self.program, self.lanes
        conditions = ["next"] if program.level_norms2 else []
        if program.level_norms2 and not program.multiplied:
            high = f"damping_factor >= {self._number(BACK)}"
            conditions.append(lanes.both("(norm2 <= old_norm2) == 0", high))
        places = {c: f"s[{self.state.trial + k}]" for k, c in enumerate(self.coordinates)}
        return [
            f"{place} = {lanes.choose(condition, f'best_q{c}', place)};"
            for condition in conditions
            for c, place in places.items()
        ]

    def _next_stage(self, lines: list[str], factor: str) -> str:
        """Add the statements of the next stage, with lighter lower-priority rows; return the damping factor's text.

        A stage ends when little decrease is left, or near the last iteration.
        """
        state, number, lanes, texts = self.state, self._number, self.lanes, StageTexts.of(self.program, self.lanes)
        lines.append(f"const F spent = {factor};")
        lines.append(f"const auto late = tried >= allowed - {texts.steps};")
        lines.append(f"const F next_gain = {' + '.join(f'step{a} * gradient{a}' for a in self.program.dofs)};")
        over = lanes.either(f"spent > {number(self.damping.factor_max)}", "late")
        over = lanes.either(over, lanes.both("better", f"next_gain < norm2 * {number(texts.gain)}"))
        ended = lanes.both(over, f"best_norm2 < {number(NOT_EVALUATED)}")
        lines.append(f"const auto at_floor = {self._at_floor()};")
        goes_on = lanes.both("tried < longest", "at_floor == 0")
        lines.append(f"const auto next = {lanes.both(lanes.both(texts.goes_on, ended), goes_on)};")
        unknown = lanes.everywhere(number(NOT_EVALUATED))
        changed = {state.stage: ("stage", texts.lighter), state.norm2: ("best_norm2", unknown)}
        for place, (name, text) in changed.items():  # the best configuration is evaluated again with new weights
            lines.append(f"s[{place}] = {lanes.choose('next', text, name)};")
        met = lanes.both(texts.is_light, f"{self._target_error()} <= floor2")
        if self.program.multiplied:  # constraints are met long before lower-priority rows are low
            met = lanes.both(met, f"best_error{len(error_outputs(self.program)) - 1} <= {number(MET2)}")
        over = lanes.everywhere(number(2.0 * self.damping.factor_max))
        if texts.is_last is not None:
            rests = lanes.both("better", f"next_gain < norm2 * {number(REST_GAIN[lanes.precision])}")
            met = lanes.either(met, lanes.both(texts.is_last, rests))
        return lanes.choose("next", lanes.everywhere(number(1.0)), lanes.choose(met, over, "spent"))
